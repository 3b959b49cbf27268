//! An alphabet: the 2 to 64 symbols a key is written in, each standing for a digit.
//!
//! `shape` reads and writes digits through it. It knows nothing of lengths, prefixes or hyphens
//! between groups; whether a hyphen may be a symbol depends on grouping, so `shape` decides.
//!
//! # Invariants
//!
//! - Symbols are distinct and need no escaping in a URL (RFC 3986's "unreserved").
//! - Reading accepts more than writing produces, but never takes one symbol for another: an
//!   alternative spelling is only accepted for a byte that is not itself a symbol.

use std::fmt;

use thiserror::Error;

/// The symbols of a keyspace, in the order of their digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Alphabet {
    symbols: String,
    /// The digit of every byte that can be read as one, or `NOT_A_DIGIT`.
    digits: [u8; 256],
}

/// Why a text does not describe an alphabet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AlphabetError {
    /// It looks like the name of an alphabet, but there is none of that name.
    #[error("there is no alphabet `{spec}`; {} {}", meant(spec), known_names())]
    UnknownName {
        /// What was given.
        spec: String,
    },
    /// It is not a name, and its symbols are too few or too many.
    #[error(
        "an alphabet has 2 to 64 symbols, `{spec}` has {symbols}; or name one of {}",
        known_names()
    )]
    Size {
        /// What was given.
        spec: String,
        /// How many symbols that is.
        symbols: usize,
    },
    /// It is not a name, and a symbol would need escaping in a URL.
    #[error(
        "`{found}` cannot be a symbol: only A-Z, a-z, 0-9, `-`, `_`, `.` and `~` are safe in a URL"
    )]
    Unsafe {
        /// The offending character.
        found: char,
    },
    /// It is not a name, and a symbol occurs twice.
    #[error(
        "`{spec}` is neither an alphabet ({}) nor distinct symbols: it repeats `{found}`",
        known_names()
    )]
    Repeated {
        /// What was given.
        spec: String,
        /// The first symbol to occur again.
        found: char,
    },
}

impl Alphabet {
    /// The alphabets that have a name.
    pub const NAMES: &'static [&'static str] =
        &["base62", "base58", "base36", "base32", "base64url", "hex", "decimal", "safe"];

    /// Reads a name, or the symbols themselves.
    ///
    /// Also reads symbols that were probably meant as a name: a keyspace may have been made with them. For a new
    /// one, ask [`Alphabet::check_spelling`] first.
    pub fn parse(spec: &str) -> Result<Alphabet, AlphabetError> {
        if let Some(symbols) = symbols_of(spec) {
            return Ok(Alphabet::of(symbols));
        }
        // `base63` is made of six distinct letters, but nobody means them.
        let after_base = spec.strip_prefix("base").and_then(|rest| rest.bytes().next());
        let is_name = after_base.is_some_and(|byte| byte.is_ascii_digit());
        let checked = check_symbols(spec);
        if is_name || (checked.is_err() && similar_name(spec).is_some()) {
            return Err(AlphabetError::UnknownName { spec: spec.to_owned() });
        }
        checked.map(|()| Alphabet::of(spec))
    }

    /// Refuses what differs from a name by one mistake or by case alone, or is most of one. `bas62` is made
    /// of five distinct symbols, but nobody means them, and an alphabet cannot be changed later.
    pub fn check_spelling(spec: &str) -> Result<(), AlphabetError> {
        if symbols_of(spec).is_none() && similar_name(spec).is_some() {
            return Err(AlphabetError::UnknownName { spec: spec.to_owned() });
        }
        Ok(())
    }

    /// The name, when these are the symbols of a named alphabet.
    pub fn name(&self) -> Option<&'static str> {
        Alphabet::NAMES.iter().copied().find(|name| symbols_of(name) == Some(&self.symbols))
    }

    /// The symbols in the order of their digits.
    pub fn symbols(&self) -> &str {
        &self.symbols
    }

    /// How many symbols there are: 2 to 64.
    pub fn size(&self) -> u8 {
        u8::try_from(self.symbols.len()).expect("an alphabet has at most 64 symbols")
    }

    /// The digit that a byte is read as.
    ///
    /// Besides the symbols these are letters of the other case, where the alphabet's letters are
    /// all of one case, and in `base32` Crockford's `O` for 0, `I` and `L` for 1.
    pub fn digit(&self, byte: u8) -> Option<u8> {
        let digit = self.digits[usize::from(byte)];
        (digit != NOT_A_DIGIT).then_some(digit)
    }

    /// Builds the table for symbols already known to be distinct and safe.
    fn of(symbols: &str) -> Alphabet {
        let mut digits = [NOT_A_DIGIT; 256];
        for (digit, symbol) in (0u8..).zip(symbols.bytes()) {
            digits[usize::from(symbol)] = digit;
        }
        if symbols == BASE32 {
            for (read_as, letters) in [(0, "O"), (1, "IL")] {
                for letter in letters.bytes() {
                    digits[usize::from(letter)] = read_as;
                }
            }
        }
        let has_upper = symbols.bytes().any(|symbol| symbol.is_ascii_uppercase());
        let has_lower = symbols.bytes().any(|symbol| symbol.is_ascii_lowercase());
        if has_upper != has_lower {
            for letter in b'A'..=b'Z' {
                let (upper, lower) =
                    (usize::from(letter), usize::from(letter.to_ascii_lowercase()));
                let (from, to) = if has_upper { (upper, lower) } else { (lower, upper) };
                digits[to] = digits[from];
            }
        }
        Alphabet { symbols: symbols.to_owned(), digits }
    }
}

impl fmt::Display for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or(&self.symbols))
    }
}

impl fmt::Debug for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Alphabet").field(&format_args!("{self}")).finish()
    }
}

/// Whether a character may stand in a URL as it is: RFC 3986's "unreserved".
pub(crate) fn is_url_safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~')
}

const NOT_A_DIGIT: u8 = u8::MAX;

const BASE62: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Bitcoin's: without 0, O, I and l.
const BASE58: &str = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const BASE36: &str = "0123456789abcdefghijklmnopqrstuvwxyz";
/// Crockford's: without I, L, O (which are read as digits) and U.
const BASE32: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const BASE64URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const HEX: &str = "0123456789abcdef";
const DECIMAL: &str = "0123456789";
/// For keys that people read aloud or copy by hand: none of 0Oo, 1Iil, 2Z, 3, 4, 5Ss, uvUVxXyY,
/// nor a vowel, so that no word forms (the set known elsewhere as "nolookalikesSafe").
const SAFE: &str = "6789BCDFGHJKLMNPQRTWbcdfghjkmnpqrtwz";

fn symbols_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "base62" => BASE62,
        "base58" => BASE58,
        "base36" => BASE36,
        "base32" => BASE32,
        "base64url" => BASE64URL,
        "hex" => HEX,
        "decimal" => DECIMAL,
        "safe" => SAFE,
        _ => return None,
    })
}

/// Refuses what cannot be symbols.
fn check_symbols(spec: &str) -> Result<(), AlphabetError> {
    let mut seen = [false; 128];
    for found in spec.chars() {
        if !is_url_safe(found) {
            return Err(AlphabetError::Unsafe { found });
        }
        let seen = &mut seen[found as usize];
        if *seen {
            return Err(AlphabetError::Repeated { spec: spec.to_owned(), found });
        }
        *seen = true;
    }
    if !(2..=64).contains(&spec.len()) {
        return Err(AlphabetError::Size { spec: spec.to_owned(), symbols: spec.len() });
    }
    Ok(())
}

/// The name that begins with the text, or differs from it by one mistake, in any case.
fn similar_name(spec: &str) -> Option<&'static str> {
    let spec = spec.to_ascii_lowercase();
    // `base64` is the beginning of a name, and one digit away from another.
    let begins = |name: &&&str| spec.len() > "base".len() && name.starts_with(&spec);
    let similar = |name: &&&str| is_one_edit(name.as_bytes(), spec.as_bytes());
    let names = Alphabet::NAMES;
    names.iter().find(begins).or_else(|| names.iter().find(similar)).copied()
}

/// Whether two texts differ by no more than one letter that is inserted, missing or replaced, or by two neighbours that
/// are swapped.
fn is_one_edit(one: &[u8], other: &[u8]) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let same = short.iter().zip(long).take_while(|(one, other)| one == other).count();
    match (&short[same..], &long[same..]) {
        ([], []) => true,
        ([a, b, short @ ..], [c, d, long @ ..]) if (a, b) == (d, c) && short == long => true,
        (short, [_, long @ ..]) if short.len() == long.len() => short == long,
        ([_, short @ ..], [_, long @ ..]) => short == long,
        _ => false,
    }
}

/// What leads from an unknown name to the known ones: the one that was probably meant, if there is one.
fn meant(spec: &str) -> String {
    match similar_name(spec) {
        Some(name) => format!("did you mean `{name}`? The known ones are"),
        None => "the known ones are".to_owned(),
    }
}

fn known_names() -> String {
    Alphabet::NAMES.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_an_alphabet_that_knows_its_name() {
        let sizes = [62, 58, 36, 32, 64, 16, 10, 36];
        for (&name, size) in Alphabet::NAMES.iter().zip(sizes) {
            let alphabet = Alphabet::parse(name).unwrap();
            assert_eq!(alphabet.size(), size, "{name}");
            assert_eq!(alphabet.name(), Some(name));
            assert_eq!(alphabet.to_string(), name);
            // The symbols themselves pass the rules for symbols, and mean the same.
            assert_eq!(Alphabet::parse(alphabet.symbols()), Ok(alphabet));
        }
    }

    #[test]
    fn symbols_may_be_given_one_by_one() {
        let alphabet = Alphabet::parse("xyz-_.~").unwrap();
        assert_eq!((alphabet.size(), alphabet.name()), (7, None));
        assert_eq!(alphabet.to_string(), "xyz-_.~");
        check_digits("xyz-_.~", &[(b'x', Some(0)), (b'-', Some(3)), (b'~', Some(6)), (b'a', None)]);
    }

    #[test]
    fn what_is_no_alphabet_is_refused_with_the_reason() {
        check_refused("base63", "no alphabet `base63`");
        check_refused("base64", "base64url");
        check_refused("abca", "repeats `a`");
        check_refused("hexx", "hex, decimal");
        check_refused("ab c", "` ` cannot be a symbol");
        check_refused("abcé", "`é` cannot be a symbol");
        check_refused("ab/", "`/` cannot be a symbol");
        check_refused("", "has 0");
        check_refused("a", "has 1");
        let all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
        check_refused(all, "has 65");
    }

    #[test]
    fn a_name_with_one_mistake_is_refused_where_a_keyspace_is_made() {
        for (spec, meant) in [
            ("bas62", "base62"),
            ("bse62", "base62"),
            ("abse62", "base62"),
            ("basd62", "base62"),
            ("BASE62", "base62"),
            ("base6", "base62"),
            ("base64", "base64url"),
            ("hexa", "hex"),
            ("HEX", "hex"),
            ("ehx", "hex"),
            ("hex.", "hex"),
            ("hexx", "hex"),
            ("decima", "decimal"),
            ("save", "safe"),
        ] {
            let error = Alphabet::check_spelling(spec).unwrap_err().to_string();
            assert!(error.contains(&format!("`{spec}`; did you mean `{meant}`?")), "{error}");
        }
        for spec in
            Alphabet::NAMES.iter().chain(&["01", "abc", "base", "xyz-_.~", HEX, SAFE, "b6s2ae"])
        {
            assert_eq!(Alphabet::check_spelling(spec), Ok(()), "{spec}");
        }
        // One that was made in the past has them for good.
        assert_eq!(Alphabet::parse("bas62").unwrap().size(), 5);
    }

    #[test]
    fn either_case_is_read_where_the_alphabet_has_one() {
        check_digits("hex", &[(b'a', Some(10)), (b'A', Some(10)), (b'F', Some(15)), (b'G', None)]);
        check_digits("base36", &[(b'z', Some(35)), (b'Z', Some(35))]);
        check_digits("ABC1", &[(b'a', Some(0)), (b'A', Some(0)), (b'd', None)]);
    }

    #[test]
    fn case_counts_where_the_alphabet_has_both() {
        check_digits("base62", &[(b'A', Some(10)), (b'a', Some(36))]);
        check_digits("Ab", &[(b'A', Some(0)), (b'a', None), (b'B', None), (b'b', Some(1))]);
    }

    #[test]
    fn crockfords_letters_are_read_as_digits_in_base32_only() {
        for (letters, digit) in [("0Oo", 0), ("1IiLl", 1)] {
            for letter in letters.bytes() {
                check_digits("base32", &[(letter, Some(digit))]);
            }
        }
        check_digits("base32", &[(b'U', None), (b'u', None), (b'z', Some(31)), (b'Z', Some(31))]);
        check_digits("base36", &[(b'O', Some(24)), (b'i', Some(18))]);
        check_digits("base58", &[(b'O', None), (b'0', None), (b'l', None)]);
    }

    #[track_caller]
    fn check_digits(spec: &str, expected: &[(u8, Option<u8>)]) {
        let alphabet = Alphabet::parse(spec).unwrap();
        for &(byte, digit) in expected {
            assert_eq!(alphabet.digit(byte), digit, "{} in {spec}", byte.escape_ascii());
        }
    }

    #[track_caller]
    fn check_refused(spec: &str, reason: &str) {
        let error = Alphabet::parse(spec).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
