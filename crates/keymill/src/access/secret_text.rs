//! Tokens as text: `km_`, 43 characters that hold 256 random bits, and a check character.
//!
//! The check character lets a typing mistake be told from a token that was revoked, and lets scanners of
//! published code recognise one. The text exists once, when the token is made; what is kept is its SHA-256.

use std::sync::LazyLock;

use keymill_core::CheckGroup;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// What every token begins with.
pub const PREFIX: &str = "km_";
/// How many characters 256 bits take.
const RANDOM_LEN: usize = 43;
/// How many characters a token has.
const LEN: usize = PREFIX.len() + RANDOM_LEN + 1;
const SYMBOLS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

static CHECK: LazyLock<CheckGroup> =
    LazyLock::new(|| CheckGroup::new(62).expect("there is a group for 62"));

/// The SHA-256 of a token: what tells it from others.
pub type TokenHash = [u8; 32];

/// Makes a token.
pub fn make() -> Result<Zeroizing<String>, getrandom::Error> {
    let mut random = Zeroizing::new([0_u8; 32]);
    getrandom::fill(&mut *random)?;
    let mut digits = Zeroizing::new([0_u8; RANDOM_LEN + 1]);
    // Long division by 62, from the last digit to the first.
    for digit in digits[..RANDOM_LEN].iter_mut().rev() {
        let mut rest = 0_u32;
        for byte in random.iter_mut() {
            let value = rest << 8 | u32::from(*byte);
            *byte = u8::try_from(value / 62).expect("the rest is below 62");
            rest = value % 62;
        }
        *digit = u8::try_from(rest).expect("it is below 62");
    }
    digits[RANDOM_LEN] = CHECK.check_digit(&digits[..RANDOM_LEN]);
    let mut text = Zeroizing::new(String::with_capacity(LEN));
    text.push_str(PREFIX);
    text.extend(digits.iter().map(|digit| char::from(SYMBOLS[usize::from(*digit)])));
    Ok(text)
}

/// The hash of a token, where the text is one.
pub fn hash(text: &[u8]) -> Option<TokenHash> {
    hash_unchecked(text).filter(|_| is_checked(text))
}

/// The hash of a text that has the length of a token. For every request: what has a hash that is known is a
/// token, and for anything else [`is_checked`] tells whether it was mistyped.
#[inline]
pub fn hash_unchecked(text: &[u8]) -> Option<TokenHash> {
    (text.len() == LEN).then(|| Sha256::digest(text).into())
}

/// Whether a text is a token by its prefix and its check character.
pub fn is_checked(text: &[u8]) -> bool {
    let Some(digits) = text.strip_prefix(PREFIX.as_bytes()) else { return false };
    let values: Option<Vec<u8>> = digits.iter().map(|symbol| value_of(*symbol)).collect();
    text.len() == LEN && values.is_some_and(|values| CHECK.is_valid(&values))
}

/// The hash of a token as text, and back.
pub fn parse_hash(text: &str) -> Option<TokenHash> {
    let mut hash = [0; 32];
    hex::decode_to_slice(text, &mut hash).ok()?;
    Some(hash)
}

fn value_of(symbol: u8) -> Option<u8> {
    match symbol {
        b'0'..=b'9' => Some(symbol - b'0'),
        b'A'..=b'Z' => Some(symbol - b'A' + 10),
        b'a'..=b'z' => Some(symbol - b'a' + 36),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tokens_differ_and_are_recognised() {
        let tokens: HashSet<String> = (0..200).map(|_| make().unwrap().to_string()).collect();
        assert_eq!(tokens.len(), 200);
        for token in &tokens {
            assert_eq!(token.len(), LEN);
            let hash = hash(token.as_bytes()).unwrap();
            assert_eq!(parse_hash(&hex::encode(hash)), Some(hash));
        }
    }

    #[test]
    fn every_single_mistake_and_every_swap_is_told_from_a_token() {
        let token = make().unwrap().to_string().into_bytes();
        for at in PREFIX.len()..LEN {
            for symbol in SYMBOLS.iter().filter(|symbol| **symbol != token[at]) {
                let mut wrong = token.clone();
                wrong[at] = *symbol;
                assert_eq!(hash(&wrong), None);
            }
            if at + 1 < LEN && token[at] != token[at + 1] {
                let mut wrong = token.clone();
                wrong.swap(at, at + 1);
                assert_eq!(hash(&wrong), None);
            }
        }
        for wrong in ["", "km_", "km_x", "KM_", &"a".repeat(LEN)] {
            assert_eq!(hash(wrong.as_bytes()), None);
        }
    }
}
