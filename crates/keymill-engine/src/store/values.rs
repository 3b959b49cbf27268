//! How the stores write numbers, times and structures.

use jiff::Timestamp;

use super::StoreError;

pub(super) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("a plain struct can be written as JSON")
}

/// Reads what [`json`] wrote; what is not that was not written by keymill.
pub(super) fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::Broken(format!("the store holds {text}: {error}")))
}

pub(super) fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

/// A length of time as the stores add it to a time.
pub(super) fn millis(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).expect("ordinals and revisions fit 63 bits")
}

pub(super) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).expect("the database holds no negative ordinals")
}

/// Bytes from what was written in hexadecimal.
pub(super) fn from_hex(text: &str) -> Result<Vec<u8>, StoreError> {
    hex::decode(text).map_err(|_| StoreError::Broken(format!("{text:?} is not hexadecimal")))
}

/// What tells a new store from every other, where the database cannot make it up.
pub(super) fn stamp() -> String {
    format!("{:016x}", random_number())
}

pub(super) fn random_number() -> u64 {
    let mut bytes = [0_u8; 8];
    getrandom::fill(&mut bytes).expect("the system has a source of randomness");
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_pairs_of_digits_and_nothing_else() {
        assert_eq!(from_hex("").unwrap(), Vec::<u8>::new());
        assert_eq!(from_hex("00fF7a").unwrap(), [0, 255, 122]);
        for other in ["0", "0g", "+1", "0x", "00 1", "äb"] {
            assert!(from_hex(other).is_err(), "{other:?}");
        }
    }
}
