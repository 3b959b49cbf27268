//! A shape, as a program asks for it: how the keys of a new keyspace are written.
//!
//! Nothing is checked here. A shape that contradicts itself is refused when the keyspace is created.

use keymill_core::ShapeSpec;

/// How the keys of a keyspace are written: alphabet, length, prefix, groups and check character.
///
/// ```
/// use keymill_engine::Shape;
///
/// let links = Shape::base62(7);                                              // 7Kx29aQ
/// let orders = Shape::base32(8).prefix("ord_").group(4).with_check();        // ord_2HQX-9DNV-C
/// let tickets = Shape::of("hex", 12);                                        // 00c0ffee4711
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape(ShapeSpec);

impl Shape {
    /// Digits and letters of both cases, so many characters long.
    pub fn base62(length: u8) -> Shape {
        Shape::of("base62", length)
    }

    /// The same without `0`, `O`, `I` and `l`, which look alike.
    pub fn base58(length: u8) -> Shape {
        Shape::of("base58", length)
    }

    /// Crockford's alphabet, for keys that people read aloud and type: capital letters and digits, where `o`
    /// is read as `0`, and `i` and `l` as `1`.
    pub fn base32(length: u8) -> Shape {
        Shape::of("base32", length)
    }

    /// Digits alone. A length of 0 writes plain integers, in keyspaces of kind
    /// [`Sequential`](crate::Kind::Sequential).
    pub fn decimal(length: u8) -> Shape {
        Shape::of("decimal", length)
    }

    /// Any alphabet: one of the above by name, `base36`, `base64url`, `hex`, `safe`, or 2 to 64 characters of your
    /// own. Keys have up to 20 of them.
    pub fn of(alphabet: &str, length: u8) -> Shape {
        Shape(ShapeSpec { alphabet: alphabet.to_owned(), length, ..ShapeSpec::default() })
    }

    /// What every key begins with, up to 16 characters.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Shape {
        self.0.prefix = prefix.to_owned();
        self
    }

    /// A hyphen after every so many characters.
    #[must_use]
    pub fn group(mut self, size: u8) -> Shape {
        self.0.group = size;
        self
    }

    /// A check character at the end, which catches every single wrong character and every swap of neighbours. The
    /// length does not count it.
    #[must_use]
    pub fn with_check(mut self) -> Shape {
        self.0.check = true;
        self
    }

    pub(crate) fn into_spec(self) -> ShapeSpec {
        self.0
    }
}
