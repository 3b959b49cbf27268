//! The master secret and the key that each space derives from it.
//!
//! `operations` asks for a space's FF1 key and for the fingerprint that tells a wrong secret
//! before it can make a wrong key. Secrets are wiped when dropped and never shown by `Debug`.

use std::fmt;

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

/// The fewest characters a given secret may have: 128 bits, written in hex.
pub const SECRET_LEN_MIN: usize = 32;

/// The one secret of a store, from which every space's key is derived.
///
/// It is never rotated: another secret would permute the same ordinals into other keys, some
/// of which are in use. A leak costs unguessability, not uniqueness.
#[derive(Clone)]
pub struct Master {
    text: Zeroizing<String>,
    made_up: bool,
}

/// Why a text cannot be the secret.
#[derive(Debug, thiserror::Error)]
#[error(
    "a secret needs at least {SECRET_LEN_MIN} characters, this one has {found}; make one with `openssl rand -hex 32`"
)]
pub struct SecretTooShort {
    found: usize,
}

impl Master {
    /// The secret that the user set. White space around it, such as a file's last newline, is
    /// not part of it.
    pub fn given(text: &str) -> Result<Master, SecretTooShort> {
        let text = text.trim();
        if text.len() < SECRET_LEN_MIN {
            return Err(SecretTooShort { found: text.len() });
        }
        Ok(Master { text: Zeroizing::new(text.to_owned()), made_up: false })
    }

    /// The secret that was made at first start and is kept in the store.
    pub fn made_up(text: String) -> Master {
        Master { text: Zeroizing::new(text), made_up: true }
    }

    /// A fresh random secret as text.
    pub fn random_text() -> Zeroizing<String> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        getrandom::fill(bytes.as_mut()).expect("the system has a source of randomness");
        // Its length is known beforehand, so it is written into one allocation and leaves no copy behind.
        Zeroizing::new(hex::encode(bytes.as_ref()))
    }

    /// Whether the secret was made at random for one store, so that no other store has it.
    pub fn is_made_up(&self) -> bool {
        self.made_up
    }

    /// The FF1 key of a space.
    ///
    /// It depends on what the permutation runs over and never on step or offset, so that
    /// interleaved stores permute alike and stay disjoint.
    pub fn space_key(&self, name: &str, symbols: &str, length: u8) -> Zeroizing<[u8; 16]> {
        let mut key = Zeroizing::new([0; 16]);
        let info: [&[u8]; 6] =
            [b"keymill ff1 v1\0", name.as_bytes(), b"\0", symbols.as_bytes(), b"\0", &[length]];
        self.expand(&info, key.as_mut());
        key
    }

    /// The key under which a space's inputs are digested.
    pub fn digest_key(&self, name: &str) -> Zeroizing<[u8; 32]> {
        let mut key = Zeroizing::new([0; 32]);
        self.expand(&[b"keymill digest v1\0", name.as_bytes()], key.as_mut());
        key
    }

    /// The key under which the sessions of browsers are signed: the same on every instance of a store.
    pub fn session_key(&self) -> Zeroizing<[u8; 32]> {
        let mut key = Zeroizing::new([0; 32]);
        self.expand(&[b"keymill session v1\0"], key.as_mut());
        key
    }

    /// Tells one secret from another without giving either away.
    pub fn fingerprint(&self, name: &str) -> String {
        let mut bytes = [0; 8];
        self.expand(&[b"keymill fingerprint v1\0", name.as_bytes()], &mut bytes);
        format!("{:016x}", u64::from_be_bytes(bytes))
    }

    fn expand(&self, info: &[&[u8]], out: &mut [u8]) {
        Hkdf::<Sha256>::new(Some(b"keymill"), self.text.as_bytes())
            .expand_multi_info(info, out)
            .expect("HKDF gives up to 8160 bytes, this asks for 32 at the most");
    }
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Master").field("made_up", &self.made_up).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_space_alphabet_and_length() {
        let master = Master::given(&"s".repeat(32)).unwrap();
        let keys = [
            master.space_key("a", "01", 20),
            master.space_key("b", "01", 20),
            master.space_key("a", "012", 20),
            master.space_key("a", "01", 19),
        ];
        for (i, left) in keys.iter().enumerate() {
            for right in &keys[i + 1..] {
                assert_ne!(left, right);
            }
        }
    }

    #[test]
    fn the_key_of_sessions_is_none_that_anything_else_has() {
        let master = Master::given(&"s".repeat(32)).unwrap();
        let key = master.session_key();
        assert_eq!(key, Master::given(&"s".repeat(32)).unwrap().session_key());
        assert_ne!(key, Master::given(&"t".repeat(32)).unwrap().session_key());
        for name in ["", "session", "keymill session v1\0"] {
            assert_ne!(key, master.digest_key(name), "{name}");
            assert!(!hex::encode(*key).starts_with(&master.fingerprint(name)), "{name}");
        }
    }

    #[test]
    fn a_newline_at_the_end_of_the_file_does_not_change_the_secret() {
        let text = "0123456789abcdef0123456789abcdef";
        let plain = Master::given(text).unwrap();
        let with_newline = Master::given(&format!("{text}\n")).unwrap();
        assert_eq!(plain.fingerprint("a"), with_newline.fingerprint("a"));
    }

    #[test]
    fn debug_shows_nothing_of_a_secret() {
        let master = Master::given("0123456789abcdef0123456789abcdef").unwrap();
        assert!(!format!("{master:?}").contains("0123"));
    }

    #[test]
    fn a_short_secret_is_refused() {
        assert!(Master::given("hunter2").unwrap_err().to_string().contains("has 7"));
    }

    /// A derivation that changes would repeat keys: it is pinned for ever. The values were made
    /// with another HKDF than the one used here.
    #[test]
    fn the_derivation_is_pinned() {
        let master = Master::given("0123456789abcdef0123456789abcdef").unwrap();
        let key = master.space_key("default", "0123456789", 7);
        assert_eq!(
            (format!("{:032x}", u128::from_be_bytes(*key)), master.fingerprint("default")),
            ("2fe62ef2190bcaa2d0940f50f82337b6".to_owned(), "0e439b1c5495c657".to_owned())
        );
    }
}
