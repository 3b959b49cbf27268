//! Sessions of browsers: who has shown a token may use it for a while without showing it again.
//!
//! A session is a text that a browser keeps: which text of which token was shown, until when it counts, and a MAC over
//! both. Its key is derived from the master secret, so every instance of a store accepts it and nothing is stored.
//! `front/http/session` makes them, `front/http/admission` opens them. Nothing here knows a protocol.
//!
//! # Invariants
//!
//! - A session names the hash of a token's text, and that hash is looked up for every request: it ends with the text
//!   that was shown, whether that is revoked, expires, or is rotated away. Another token by the same name has another hash.
//! - It is not the token, and the token cannot be computed from it.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::secret_text::TokenHash;

/// How long a session lasts, unless its token ends before.
pub const SESSION_LASTS: SignedDuration = SignedDuration::from_hours(12);

/// What every session begins with: the form that it is written in.
const FORM: u8 = 1;
const HASH_LEN: usize = 32;
const END_LEN: usize = 8;
const MAC_LEN: usize = 32;
/// What the MAC is over: the form, the hash, and the end in seconds since 1970.
const SIGNED_LEN: usize = 1 + HASH_LEN + END_LEN;
const LEN: usize = SIGNED_LEN + MAC_LEN;

/// A session that was signed here or by another instance of the same store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// The text of a token that was shown.
    pub hash: TokenHash,
    /// When it ends. The token may end before.
    pub expires_at: Timestamp,
}

/// What sessions are signed with.
pub struct SessionKey(Zeroizing<[u8; 32]>);

impl SessionKey {
    /// The key that the instances of a store have in common.
    pub fn new(key: Zeroizing<[u8; 32]>) -> SessionKey {
        SessionKey(key)
    }

    /// A key that no other instance has.
    pub fn random() -> SessionKey {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(key.as_mut()).expect("the system has a source of randomness");
        SessionKey(key)
    }

    /// Signs a session.
    pub fn sign(&self, session: &Session) -> String {
        let mut bytes = [0; LEN];
        bytes[0] = FORM;
        bytes[1..=HASH_LEN].copy_from_slice(&session.hash);
        let end = session.expires_at.as_second().to_be_bytes();
        bytes[1 + HASH_LEN..SIGNED_LEN].copy_from_slice(&end);
        let mac = self.mac(&bytes[..SIGNED_LEN]);
        bytes[SIGNED_LEN..].copy_from_slice(&mac);
        hex::encode(bytes)
    }

    /// The session that a text is, if it was signed with this key and has not ended.
    pub fn open(&self, text: &[u8], now: Timestamp) -> Option<Session> {
        let mut bytes = [0; LEN];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        let (signed, mac) = bytes.split_at(SIGNED_LEN);
        let is_signed: bool = self.mac(signed).ct_eq(mac).into();
        if !is_signed || signed[0] != FORM {
            return None;
        }
        let (hash, end) = signed[1..].split_at(HASH_LEN);
        let end = i64::from_be_bytes(end.try_into().ok()?);
        let expires_at = Timestamp::from_second(end).ok()?;
        (now < expires_at).then_some(Session { hash: hash.try_into().ok()?, expires_at })
    }

    fn mac(&self, signed: &[u8]) -> [u8; MAC_LEN] {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_slice())
            .expect("HMAC takes a key of any length");
        mac.update(signed);
        mac.finalize().into_bytes().into()
    }
}

impl Session {
    /// The session of somebody who shows a token now. `token_end` is when that text of the token ends, if it does.
    pub fn begin(hash: TokenHash, now: Timestamp, token_end: Option<Timestamp>) -> Session {
        let end = now.saturating_add(SESSION_LASTS).unwrap_or(Timestamp::MAX);
        let end = token_end.map_or(end, |token_end| end.min(token_end));
        // As it is written.
        let expires_at = Timestamp::from_second(end.as_second()).unwrap_or(end);
        Session { hash, expires_at }
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: TokenHash = [7; 32];

    #[test]
    fn a_session_is_opened_by_whoever_has_its_key_until_it_ends() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let session = Session::begin(HASH, now, None);
        assert_eq!(session.expires_at, now + SignedDuration::from_hours(12));
        let text = key(1).sign(&session);
        let last = session.expires_at - SignedDuration::from_millis(1);
        for (other, at, is_open) in [
            (key(1), now, true),
            (key(1), last, true),
            (key(1), session.expires_at, false),
            (key(1), Timestamp::MAX, false),
            (key(2), now, false),
            (SessionKey::random(), now, false),
        ] {
            let opened = other.open(text.as_bytes(), at);
            assert_eq!(opened, is_open.then_some(session), "at {at}");
        }
    }

    #[test]
    fn a_session_ends_no_later_than_its_token() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        for (token_ends_after, lasts) in [(60, 60), (43_200, 43_200), (43_201, 43_200)] {
            let token_end = now + SignedDuration::from_secs(token_ends_after);
            let session = Session::begin(HASH, now, Some(token_end));
            assert_eq!(session.expires_at, now + SignedDuration::from_secs(lasts));
        }
    }

    #[test]
    fn a_session_that_was_changed_anywhere_is_not_opened() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let text = key(1).sign(&Session::begin(HASH, now, None));
        assert_eq!(text.len(), 2 * LEN);
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(key(1).open(&changed, now), None, "at {at}");
        }
        let longer = format!("{text}00");
        for wrong in ["", "00", &text[2..], &text[..text.len() - 2], &longer, &"z".repeat(146)] {
            assert_eq!(key(1).open(wrong.as_bytes(), now), None, "{wrong}");
        }
    }

    #[test]
    fn a_session_of_another_form_is_not_opened() {
        let mut signed = vec![FORM + 1];
        signed.extend([7; HASH_LEN]);
        signed.extend(2_000_000_000_i64.to_be_bytes());
        let mac = key(1).mac(&signed);
        let text = hex::encode([signed.as_slice(), &mac].concat());
        assert_eq!(key(1).open(text.as_bytes(), Timestamp::UNIX_EPOCH), None);
    }

    /// Instances of one store may be of different versions. The value was made with another HMAC than the one here.
    #[test]
    fn the_form_is_pinned() {
        let expires_at = Timestamp::from_second(1_800_000_000).unwrap();
        let text = key(1).sign(&Session { hash: HASH, expires_at });
        let (signed, mac) = text.split_at(2 * SIGNED_LEN);
        assert_eq!(signed, format!("01{}000000006b49d200", "07".repeat(32)));
        assert_eq!(mac, "dcdb487a34c655b8320d3913cc877c98e3e3f444ef32fe7da6aa439adb4c392c");
    }

    #[test]
    fn debug_shows_nothing_of_a_key() {
        assert_eq!(format!("{:?}", key(255)), "SessionKey(…)");
    }

    fn key(byte: u8) -> SessionKey {
        SessionKey::new(Zeroizing::new([byte; 32]))
    }
}
