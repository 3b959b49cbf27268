//! A shape: how a number is written as a key, and read back.
//!
//! `codec` writes every key through it, and the engine shows its settings. A shape knows nothing of
//! order or secrets: equal numbers give equal keys.
//!
//! ```text
//! ord_ 7Kx2 - 9aQ c
//! |    |    | |   check character, when there is one
//! |    |    hyphen between groups, when there are groups
//! |    symbols of the alphabet, `length` of them
//! prefix
//! ```
//!
//! # Invariants
//!
//! - Every number below the capacity has exactly one text that `write` gives, and `read` of that
//!   text gives the number.
//! - `read` accepts other spellings (case, Crockford's letters, hyphens), each of one number only.

mod error;

use std::sync::Arc;

pub use error::{DecodeError, ShapeError};

use crate::alphabet::{Alphabet, is_url_safe};
use crate::check::CheckGroup;
use crate::digits::Digits;
use crate::text::KeyText;

/// The settings of a shape, as a user gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeSpec {
    /// The name of an alphabet, or its symbols.
    pub alphabet: String,
    /// How many symbols a number takes, up to 20; 0 writes plain integers.
    pub length: u8,
    /// What every key begins with.
    pub prefix: String,
    /// After how many symbols a hyphen stands; 0 for none.
    pub group: u8,
    /// Whether a check character follows, which `length` does not count.
    pub check: bool,
}

impl Default for ShapeSpec {
    fn default() -> ShapeSpec {
        ShapeSpec {
            alphabet: "base62".to_owned(),
            length: 7,
            prefix: String::new(),
            group: 0,
            check: false,
        }
    }
}

/// A way to write numbers, known to be sound.
#[derive(Clone, Debug)]
pub struct Shape {
    length: u8,
    prefix: String,
    group: u8,
    capacity: u128,
    /// size^(length/2, rounded up): where the two halves of a number part.
    low_half: u64,
    digits: Arc<Digits>,
    check: Option<Arc<CheckGroup>>,
}

impl Shape {
    /// Checks the settings.
    pub fn new(spec: &ShapeSpec) -> Result<Shape, ShapeError> {
        let alphabet = Alphabet::parse(&spec.alphabet)?;
        let &ShapeSpec { length, group, .. } = spec;
        if length > LENGTH_MAX {
            return Err(ShapeError::Length { length });
        }
        if let Some(found) = spec.prefix.chars().find(|&c| !is_url_safe(c)) {
            return Err(ShapeError::PrefixCharacter { found });
        }
        if spec.prefix.len() > PREFIX_MAX {
            return Err(ShapeError::PrefixLength { prefix: spec.prefix.clone() });
        }
        if group > 0 && alphabet.digit(b'-').is_some() {
            return Err(ShapeError::GroupWithHyphenSymbol);
        }
        if group > 0 && length == 0 {
            return Err(ShapeError::GroupWithoutLength);
        }
        let check = match spec.check {
            true => Some(CheckGroup::new(alphabet.size()).ok_or(ShapeError::CheckWithTwoSymbols)?),
            false => None,
        };
        let size = u64::from(alphabet.size());
        let capacity = match length {
            0 => PLAIN_CAPACITY,
            _ => u128::from(size).pow(u32::from(length)),
        };
        Ok(Shape {
            length,
            prefix: spec.prefix.clone(),
            group,
            capacity,
            low_half: size.pow(u32::from(length.div_ceil(2))),
            digits: Digits::of(alphabet),
            check: check.map(Arc::new),
        })
    }

    /// The settings, with the alphabet by name where it has one.
    pub fn spec(&self) -> ShapeSpec {
        ShapeSpec {
            alphabet: self.alphabet().to_string(),
            length: self.length,
            prefix: self.prefix.clone(),
            group: self.group,
            check: self.check.is_some(),
        }
    }

    /// The alphabet.
    pub fn alphabet(&self) -> &Alphabet {
        &self.digits.alphabet
    }

    /// How many symbols a number takes; 0 for plain integers.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// How many numbers there are to write: alphabet^length, or 2^63 plain integers.
    pub fn capacity(&self) -> u128 {
        self.capacity
    }

    /// The length of the longest key in bytes.
    pub fn text_len_max(&self) -> usize {
        let symbols = match self.length {
            0 => self.digits.count(PLAIN_MAX),
            length => usize::from(length),
        };
        let body = symbols + usize::from(self.check.is_some());
        let hyphens = match self.group {
            0 => 0,
            group => (body - 1) / usize::from(group),
        };
        self.prefix.len() + body + hyphens
    }

    /// Writes a number below the capacity, replacing what `out` held.
    pub fn write(&self, number: u128, out: &mut KeyText) {
        assert!(number < self.capacity, "{number} is not below the capacity {}", self.capacity);
        *out = self.prefixed();
        if self.length == 0 {
            return self.write_plain(low_word(number), out);
        }
        let low_half = u128::from(self.low_half);
        // Both halves are at most 64^10.
        self.write_halves(low_word(number / low_half), low_word(number % low_half), out);
    }

    /// Reads a number back, accepting every spelling of its key.
    pub fn read(&self, text: &[u8]) -> Result<u128, DecodeError> {
        let Some(body) = text.strip_prefix(self.prefix.as_bytes()) else {
            return Err(DecodeError::Prefix { expected: self.prefix.clone() });
        };
        let mut digits = [0; DIGITS_MAX];
        let digits = self.read_digits(body, &mut digits)?;
        let digits = match &self.check {
            None => digits,
            Some(check) if check.is_valid(digits) => &digits[..digits.len() - 1],
            Some(_) => return Err(DecodeError::Check),
        };
        if self.length == 0 && digits.len() > 1 && digits[0] == 0 {
            return Err(DecodeError::LeadingZero);
        }
        let size = u128::from(self.alphabet().size());
        let mut number = 0_u128;
        for &digit in digits {
            number = number * size + u128::from(digit);
            // With a length this cannot be: all its digit strings are numbers below the capacity. Without
            // one, what goes on would soon not fit.
            if number >= self.capacity {
                return Err(DecodeError::TooLarge);
            }
        }
        Ok(number)
    }

    /// The one spelling under which a key is compared and stored.
    pub fn canonical(&self, text: &[u8]) -> Result<KeyText, DecodeError> {
        let number = self.read(text)?;
        let mut canonical = KeyText::new();
        self.write(number, &mut canonical);
        Ok(canonical)
    }

    /// Whether keys sort as texts just as their numbers do.
    pub fn is_sorted(&self) -> bool {
        self.length > 0 && self.alphabet().symbols().as_bytes().is_sorted()
    }

    /// What follows the prefix of a key of this shape: the part the blocklist looks at.
    #[inline]
    pub fn after_prefix<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.prefix.len().min(text.len())..]
    }

    /// A text that holds the prefix, for `write_halves` to write behind.
    pub(crate) fn prefixed(&self) -> KeyText {
        let mut text = KeyText::new();
        text.extend(self.prefix.len()).copy_from_slice(self.prefix.as_bytes());
        text
    }

    /// Writes a number given as the values of its first and its second half of digits, the
    /// second being the longer one where the length is odd. `out` is `prefixed` already, and may
    /// hold another key.
    #[inline]
    pub(crate) fn write_halves(&self, high: u64, low: u64, out: &mut KeyText) {
        let length = usize::from(self.length);
        out.truncate(self.prefix.len());
        if self.group == 0 && self.check.is_none() {
            let (first, second) = out.extend(length).split_at_mut(length / 2);
            self.digits.write(high, first);
            self.digits.write(low, second);
            return;
        }
        let mut body = [0; LENGTH_MAX as usize + 1];
        let (first, second) = body[..length].split_at_mut(length / 2);
        self.digits.write(high, first);
        self.digits.write(low, second);
        let body = self.close(&mut body, length);
        match self.group {
            0 => out.extend(body.len()).copy_from_slice(body),
            group => {
                for (i, part) in body.chunks(usize::from(group)).enumerate() {
                    if i > 0 {
                        out.push(b'-');
                    }
                    out.extend(part.len()).copy_from_slice(part);
                }
            }
        }
    }

    fn write_plain(&self, value: u64, out: &mut KeyText) {
        let count = self.digits.count(value);
        let mut body = [0; DIGITS_MAX];
        self.digits.write(value, &mut body[..count]);
        let body = self.close(&mut body, count);
        out.extend(body.len()).copy_from_slice(body);
    }

    /// Adds the check character, if there is one, behind `count` symbols.
    #[inline]
    fn close<'a>(&self, body: &'a mut [u8], count: usize) -> &'a [u8] {
        let Some(check) = &self.check else {
            return &body[..count];
        };
        let mut digits = [0; DIGITS_MAX];
        for (digit, &symbol) in digits.iter_mut().zip(&body[..count]) {
            *digit = self.alphabet().digit(symbol).expect("a written symbol is of the alphabet");
        }
        body[count] = self.digits.symbol(check.check_digit(&digits[..count]));
        &body[..=count]
    }

    /// The digits of a body, which are as many as the shape asks for, check included.
    fn read_digits<'a>(
        &self,
        body: &[u8],
        digits: &'a mut [u8; DIGITS_MAX],
    ) -> Result<&'a [u8], DecodeError> {
        let is_symbol = |byte: u8| self.group == 0 || byte != b'-';
        let found = body.iter().filter(|&&byte| is_symbol(byte)).count();
        let checks = usize::from(self.check.is_some());
        match self.length {
            _ if found == 0 => return Err(DecodeError::Empty),
            0 if found > DIGITS_MAX => return Err(DecodeError::TooLarge),
            0 if found == checks => return Err(DecodeError::Empty),
            0 => {}
            length => {
                let expected = usize::from(length) + checks;
                if found != expected {
                    return Err(DecodeError::Length { expected, found });
                }
            }
        }
        let symbols = body.iter().enumerate().filter(|&(_, &byte)| is_symbol(byte));
        for (digit, (i, &found)) in digits.iter_mut().zip(symbols) {
            let at = self.prefix.len() + i;
            *digit = self.alphabet().digit(found).ok_or(DecodeError::Character { at, found })?;
        }
        Ok(&digits[..found])
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Shape) -> bool {
        // Everything else is derived from these.
        self.alphabet() == other.alphabet()
            && self.length == other.length
            && self.prefix == other.prefix
            && self.group == other.group
            && self.check.is_some() == other.check.is_some()
    }
}

impl Eq for Shape {}

const LENGTH_MAX: u8 = 20;
const PREFIX_MAX: usize = 16;
/// The most digits a text can have: a plain integer in an alphabet of two symbols, or of three
/// with a check character.
const DIGITS_MAX: usize = 63;
/// Plain integers fit a signed 64-bit column everywhere.
const PLAIN_CAPACITY: u128 = 1 << 63;
const PLAIN_MAX: u64 = (1 << 63) - 1;

/// The value as `u64`, where it is known to fit.
fn low_word(value: u128) -> u64 {
    u64::try_from(value).expect("the value fits 64 bits")
}
