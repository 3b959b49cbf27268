//! A record: a key as a word of fixed width, which sorts fast and takes as many bytes in a file as the key has.
//!
//! All keys of a buffer, and of a run, have the same length, so a record need not say it. Keys are compared whole,
//! never by a hash.

/// The longest key that can be checked.
pub(in super::super) const KEY_LEN_MAX: usize = 128;

/// A key of at most `size_of::<Self>()` bytes.
pub(super) trait Record: Copy + Ord + Send + 'static {
    /// The record of a key.
    fn pack(key: &[u8]) -> Self;

    /// Writes the key into a slice of its length.
    fn unpack(self, key: &mut [u8]);
}

impl Record for u64 {
    fn pack(key: &[u8]) -> u64 {
        u64::from_be_bytes(padded(key))
    }

    fn unpack(self, key: &mut [u8]) {
        key.copy_from_slice(&self.to_be_bytes()[..key.len()]);
    }
}

impl Record for u128 {
    fn pack(key: &[u8]) -> u128 {
        u128::from_be_bytes(padded(key))
    }

    fn unpack(self, key: &mut [u8]) {
        key.copy_from_slice(&self.to_be_bytes()[..key.len()]);
    }
}

impl<const N: usize> Record for [u8; N] {
    fn pack(key: &[u8]) -> [u8; N] {
        padded(key)
    }

    fn unpack(self, key: &mut [u8]) {
        key.copy_from_slice(&self[..key.len()]);
    }
}

fn padded<const N: usize>(key: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..key.len()].copy_from_slice(key);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_any_length_comes_back() {
        check::<u64>(8);
        check::<u128>(16);
        check::<[u8; 40]>(40);
        check::<[u8; KEY_LEN_MAX]>(KEY_LEN_MAX);
    }

    fn check<R: Record>(len_max: usize) {
        for len in 1..=len_max {
            let key: Vec<u8> = (0..len).map(|at| b'a' + u8::try_from(at % 26).unwrap()).collect();
            let mut read = vec![0; len];
            R::pack(&key).unpack(&mut read);
            assert_eq!(read, key);
            let mut higher = key.clone();
            higher[len - 1] += 1;
            assert!(R::pack(&key) < R::pack(&higher), "records sort as keys do");
        }
    }
}
