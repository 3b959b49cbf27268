//! A key as text, on the stack: what `shape` writes and the engine copies out.
//!
//! It holds ASCII only. It never allocates and never holds more than [`KeyText::CAPACITY`] bytes.

use std::fmt;
use std::ops::Deref;

/// The text of one key.
#[derive(Clone, Copy)]
pub struct KeyText {
    bytes: [u8; KeyText::CAPACITY],
    len: u8,
}

impl KeyText {
    /// The longest key: a prefix of 16, then the 63 binary digits of a plain integer.
    pub const CAPACITY: usize = 80;

    /// An empty text, to be written to.
    pub const fn new() -> KeyText {
        KeyText { bytes: [0; KeyText::CAPACITY], len: 0 }
    }

    /// The bytes of the key.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The key as a string.
    #[inline]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("keys are ASCII")
    }

    /// Keeps the first `len` bytes, which must be there.
    #[inline]
    pub(crate) fn truncate(&mut self, len: usize) {
        debug_assert!(len <= self.len(), "the text is shorter than {len}");
        self.len = u8::try_from(len).expect("a key is shorter than 256 bytes");
    }

    /// Adds `count` bytes and gives them to be written.
    #[inline]
    pub(crate) fn extend(&mut self, count: usize) -> &mut [u8] {
        let start = usize::from(self.len);
        let end = start + count;
        self.len = u8::try_from(end).expect("a key is shorter than 256 bytes");
        &mut self.bytes[start..end]
    }

    /// Adds one byte.
    #[inline]
    pub(crate) fn push(&mut self, byte: u8) {
        self.extend(1)[0] = byte;
    }
}

impl Default for KeyText {
    fn default() -> KeyText {
        KeyText::new()
    }
}

impl Deref for KeyText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for KeyText {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for KeyText {
    fn eq(&self, other: &KeyText) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for KeyText {}

impl fmt::Display for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
