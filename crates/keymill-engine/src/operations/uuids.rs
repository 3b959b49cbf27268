//! What a UUID tells by itself: its version and time, and which ones lie between two times.
//!
//! Called by `explain` and `bounds`; UUIDs are made in `source/uuids.rs`.

use jiff::Timestamp;
use uuid::{Uuid, Version};

use super::ids::up_to_ms;
use super::{Explanation, State};
use crate::source::uuids::Uuids;

impl Uuids {
    /// What a key tells by itself; there is nothing else to know.
    pub(super) fn explain(self, key: &str) -> Explanation {
        let Ok(uuid) = Uuid::try_parse(key) else {
            return Explanation::invalid("it is not a UUID".to_owned());
        };
        let version = match self {
            Uuids::Random => Version::Random,
            Uuids::ByTime => Version::SortRand,
        };
        if uuid.get_version() != Some(version) {
            let (found, wanted) = (uuid.get_version_num(), version as usize);
            return Explanation::invalid(format!(
                "it has version {found}, but this keyspace has version {wanted}"
            ));
        }
        let time = uuid.get_timestamp().and_then(|time| {
            let (seconds, nanos) = time.to_unix();
            Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanos).ok()?).ok()
        });
        Explanation {
            key: Some(uuid.hyphenated().to_string()),
            time,
            ..Explanation::new(State::Unknown, "single UUIDs are not recorded".to_owned())
        }
    }

    /// The lowest and the highest of a time; `None` where they are in no order of time.
    pub(super) fn bounds(self, from: Timestamp, to: Timestamp) -> Option<(String, String)> {
        let ms = |ms: i64| u64::try_from(ms).unwrap_or(0) & MS_MAX;
        let (first, end) = (ms(from.as_millisecond()), ms(up_to_ms(to)));
        let last = end.checked_sub(1).filter(|last| *last >= first && from < to)?;
        let bound = |ms: u64, fill: u8| {
            let builder = uuid::Builder::from_unix_timestamp_millis(ms, &[fill; 10]);
            builder.into_uuid().hyphenated().to_string()
        };
        (self == Uuids::ByTime).then(|| (bound(first, 0), bound(last, 0xff)))
    }
}

/// The milliseconds that a UUID has room for.
const MS_MAX: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_of_version_7_rise_and_tell_their_time() {
        let mut made = Vec::new();
        let before = Timestamp::now();
        Uuids::ByTime.make(10_000, |key| made.push(String::from_utf8(key.to_vec()).unwrap()));
        assert!(made.is_sorted_by(|a, b| a < b));
        let explained = Uuids::ByTime.explain(&made[0].to_uppercase());
        assert_eq!(explained.key.as_deref(), Some(made[0].as_str()));
        assert!(explained.time.unwrap().as_millisecond() >= before.as_millisecond());
        let to = Timestamp::from_millisecond(Timestamp::now().as_millisecond() + 1).unwrap();
        let (low, high) = Uuids::ByTime.bounds(before, to).unwrap();
        assert!(low <= made[0] && made[9_999] <= high, "{low} {high}");
        assert_eq!(Uuids::ByTime.bounds(before, before), None);
    }

    #[test]
    fn what_is_no_uuid_of_the_space_is_invalid() {
        let mut random = String::new();
        Uuids::Random.make(1, |key| random = String::from_utf8(key.to_vec()).unwrap());
        assert_eq!(Uuids::Random.explain(&random).state, State::Unknown);
        for (key, says) in [("xyz", "not a UUID"), (&random, "has version 4")] {
            let explained = Uuids::ByTime.explain(key);
            assert_eq!(explained.state, State::Invalid);
            assert!(explained.reason.contains(says), "{}", explained.reason);
        }
    }
}
