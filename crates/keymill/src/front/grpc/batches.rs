//! Batches: keys of a stream, packed into messages that have keys of one length each.
//!
//! `take_stream` adds the keys of a take and sends what comes out. Nothing here waits.

use bytes::Bytes;
use jiff::Timestamp;
use keymill_proto::v1::TakeStreamResponse;

use super::answers::put_framed;
use super::convert;
use super::messages::HEAD;

/// What a message has besides its keys, at most: its head, two fields with their lengths, and a time.
pub(super) const AROUND: usize = HEAD + 32;

/// Keys on their way into messages.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Runs of keys of one length: the length, and the keys.
    runs: Vec<(usize, Vec<u8>)>,
    /// How much room the first run gets at once.
    bytes: usize,
}

impl Batches {
    /// None yet, with room for so many bytes of keys.
    pub(super) fn with_room(bytes: usize) -> Batches {
        Batches { runs: Vec::with_capacity(1), bytes }
    }

    /// Adds a key.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8]) {
        match self.runs.last_mut() {
            Some((len, keys)) if *len == key.len() => keys.extend_from_slice(key),
            _ => self.begin(key),
        }
    }

    fn begin(&mut self, key: &[u8]) {
        // A second run is rare, and most often the last.
        let room = if self.runs.is_empty() { self.bytes } else { 0 };
        let mut keys = Vec::with_capacity(room.max(key.len()));
        keys.extend_from_slice(key);
        self.runs.push((key.len(), keys));
    }

    /// The messages, each with what stands before it, and with when the first of all keys expires.
    pub(super) fn into_messages(self, expires_at: Option<Timestamp>) -> Vec<u8> {
        let len = self.runs.iter().map(|(_, keys)| keys.len() + AROUND).sum();
        let mut bytes = Vec::with_capacity(len);
        for (len, keys) in self.runs {
            let message = TakeStreamResponse {
                keys: Bytes::from(keys),
                key_length: u32::try_from(len).expect("a key is short"),
                expires_at: expires_at.map(convert::time),
            };
            put_framed(&message, &mut bytes);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn a_batch_ends_where_the_length_of_keys_changes() {
        check(&["aaa", "bbb"], &[("aaabbb", 3)]);
        check(&["8", "9", "10", "11"], &[("89", 1), ("1011", 2)]);
        check(&["aa", "b", "cc"], &[("aa", 2), ("b", 1), ("cc", 2)]);
        check(&[], &[]);
    }

    #[track_caller]
    fn check(keys: &[&str], expected: &[(&str, u32)]) {
        let mut batches = Batches::with_room(4);
        for key in keys {
            batches.add(key.as_bytes());
        }
        let at = "2026-11-16T00:00:00.123456789Z".parse().unwrap();
        let bytes = batches.into_messages(Some(at));
        let mut rest = &bytes[..];
        let mut found = Vec::new();
        while let Some((head, behind)) = rest.split_first_chunk::<HEAD>() {
            let [0, len @ ..] = head else { panic!("a message is not compressed") };
            let (message, behind) = behind.split_at(u32::from_be_bytes(*len) as usize);
            let message = TakeStreamResponse::decode(message).unwrap();
            assert_eq!(message.expires_at, Some(convert::time(at)));
            assert!(message.encoded_len() + HEAD <= message.keys.len() + AROUND);
            found.push((String::from_utf8(message.keys.to_vec()).unwrap(), message.key_length));
            rest = behind;
        }
        let expected: Vec<(String, u32)> =
            expected.iter().map(|(keys, len)| ((*keys).to_owned(), *len)).collect();
        assert_eq!(found, expected);
    }
}
