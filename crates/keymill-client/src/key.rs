//! A key: text that was handed out once.
//!
//! Keys of usual lengths are kept in place, without an allocation.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// How long a key may be to be kept in place. A UUID has 36 characters.
const INLINE_MAX: usize = 38;

/// A key. It dereferences to its text.
///
/// Deliberately not `Clone`: a key is handed out once, and two owners of one key are what keymill prevents. Its text
/// can be copied, with `key.to_string()` or `String::from(key)`.
pub struct Key(Text);

enum Text {
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    Boxed(Box<str>),
}

impl Key {
    pub(crate) fn new(text: &str) -> Key {
        let mut bytes = [0; INLINE_MAX];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(room), Ok(len)) => {
                room.copy_from_slice(text.as_bytes());
                Key(Text::Inline { len, bytes })
            }
            _ => Key(Text::Boxed(text.into())),
        }
    }

    /// The text of the key.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Inline { len, bytes } => {
                let text = &bytes[..usize::from(*len)];
                std::str::from_utf8(text).expect("it was copied from a str")
            }
            Text::Boxed(text) => text,
        }
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<Key> for String {
    fn from(key: Key) -> String {
        match key.0 {
            Text::Boxed(text) => text.into(),
            Text::Inline { .. } => key.as_str().to_owned(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Key {}

impl PartialEq<str> for Key {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Key {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> std::cmp::Ordering {
        self.as_str().cmp(other)
    }
}

// As a `str` is hashed, because it can be borrowed as one.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        struct AsKey;

        impl Visitor<'_> for AsKey {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Key, E> {
                Ok(Key::new(text))
            }
        }

        deserializer.deserialize_str(AsKey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_any_length_is_its_text() {
        for len in [0, 1, 7, 36, INLINE_MAX, INLINE_MAX + 1, 255, 256, 300] {
            let text = "k".repeat(len);
            let key = Key::new(&text);
            assert_eq!(key, text.as_str());
            assert_eq!(matches!(key.0, Text::Inline { .. }), len <= INLINE_MAX);
            assert_eq!(String::from(key), text);
        }
    }

    #[test]
    fn a_key_is_found_in_a_map_by_its_text() {
        let keys = std::collections::HashSet::from([Key::new("abc"), Key::new(&"x".repeat(50))]);
        assert!(keys.contains("abc") && keys.contains("x".repeat(50).as_str()));
        assert_eq!(format!("{:>5}|{:?}", Key::new("abc"), Key::new("d")), "  abc|\"d\"");
        assert_eq!(size_of::<Key>(), 40);
    }
}
