//! A set of keys, small enough for many millions of them. It is exact: keys are compared whole, never by a hash
//! alone. A key of up to 15 bytes takes 17 bytes and the room that a hash table leaves free.

use std::collections::HashSet;

/// The longest key that fits into one word, with its length.
const SHORT_MAX: usize = 15;

/// Keys, each once.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    short: HashSet<u128>,
    long: HashSet<Box<str>>,
}

impl KeySet {
    /// Adds a key; `false` when it was there already.
    pub(crate) fn insert(&mut self, key: &str) -> bool {
        match pack(key) {
            Some(word) => self.short.insert(word),
            None => self.long.insert(key.into()),
        }
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        match pack(key) {
            Some(word) => self.short.contains(&word),
            None => self.long.contains(key),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    /// All keys, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = String> {
        let short = self.short.iter().map(|word| unpack(*word));
        short.chain(self.long.iter().map(|key| String::from(&**key)))
    }

    /// The lowest and the highest key.
    pub(crate) fn range(&self) -> Option<(String, String)> {
        let short = [self.short.iter().min(), self.short.iter().max()];
        let [low, high] = short.map(|word| word.map(|word| unpack(*word)));
        let long = [self.long.iter().min(), self.long.iter().max()];
        let [lowest, highest] = long.map(|key| key.map(|key| String::from(&**key)));
        let lowest = low.into_iter().chain(lowest).min();
        lowest.zip(high.into_iter().chain(highest).max())
    }
}

/// A key and its length in one word, in the order of the keys.
fn pack(key: &str) -> Option<u128> {
    let len = u8::try_from(key.len()).ok()?;
    let mut bytes = [0; SHORT_MAX + 1];
    bytes[..SHORT_MAX].get_mut(..key.len())?.copy_from_slice(key.as_bytes());
    bytes[SHORT_MAX] = len;
    Some(u128::from_be_bytes(bytes))
}

fn unpack(word: u128) -> String {
    let bytes = word.to_be_bytes();
    let key = bytes[..usize::from(bytes[SHORT_MAX])].to_vec();
    String::from_utf8(key).expect("it was packed from text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_share_a_beginning_are_different() {
        check(&["a", "a\0", "", "a\0\0"]);
    }

    #[test]
    fn keys_of_every_length_are_compared_whole() {
        let long = "x".repeat(40);
        check(&["0123456789abcde", "0123456789abcdef", "0123456789abcdeg", &long, &long[1..]]);
    }

    /// All these are different, and each is there once, however often it is added.
    #[track_caller]
    fn check(keys: &[&str]) {
        let mut set = KeySet::default();
        for key in keys {
            assert!(!set.contains(key) && set.insert(key), "{key:?} was there already");
        }
        for key in keys {
            assert!(set.contains(key) && !set.insert(key), "{key:?} is not there");
        }
        assert_eq!(set.len(), keys.len());
        let sorted = |mut keys: Vec<String>| {
            keys.sort_unstable();
            keys
        };
        let expected = sorted(keys.iter().map(ToString::to_string).collect());
        assert_eq!(set.range(), expected.first().cloned().zip(expected.last().cloned()));
        assert_eq!(sorted(set.iter().collect()), expected);
    }
}
