//! A time as people write it, in a query or on the command line.
//!
//! `front/http/params.rs` and `cli/values.rs` read times here, so that both accept the same. jiff would also
//! read a time zone in brackets, which the description (`date-time`, RFC 3339) does not allow. Nothing here knows
//! what the time is for.

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;

/// What a refusal says that a time must be.
pub(crate) const TIME: &str = "a time such as 2026-11-16T00:00:00Z";

/// Reads a time.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    if has_zone(text) { None } else { text.parse().ok() }
}

/// Reads the beginning or the end of a period. Of the last day of the year 9999, which stands for "no end", only
/// a part can be represented: whatever is later counts as the latest time there is.
pub(crate) fn read_bound(text: &str) -> Option<Timestamp> {
    read(text).or_else(|| is_too_late(text).then_some(Timestamp::MAX))
}

/// Whether a text is a time beyond the latest that can be represented.
fn is_too_late(text: &str) -> bool {
    if has_zone(text) {
        return false;
    }
    let Ok(pieces) = Pieces::parse(text) else { return false };
    let (Some(time), Some(offset)) = (pieces.time(), pieces.to_numeric_offset()) else {
        return false;
    };
    // A time can also be too early, in a negative year.
    let date = pieces.date();
    date.year() == 9999 && offset.to_timestamp(date.to_datetime(time)).is_err()
}

fn has_zone(text: &str) -> bool {
    text.contains('[')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_later_than_the_latest_time_counts_as_that() {
        let last = Some(Timestamp::MAX);
        for text in
            ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999-12:00", "9999-12-30T22:00:01Z"]
        {
            assert_eq!((read(text), read_bound(text)), (None, last), "{text}");
        }
        let before = read("9999-12-30T22:00:00Z");
        assert!(before.is_some() && before < last);
        assert_eq!(read_bound("9999-12-31T00:00:00+14:00"), read("9999-12-30T10:00:00Z"));
    }

    #[test]
    fn what_is_not_a_time_is_refused() {
        for text in [
            "",
            "x",
            "9999",
            "9999-12-31",
            "9999-12-31T23:59:59",
            "10000-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z[UTC]",
            "2026-11-16T00:00:00Z[UTC]",
            "2026-11-16T00:00:00[UTC]",
            "-009999-01-01T00:00:00+23:00",
        ] {
            assert_eq!((read(text), read_bound(text)), (None, None), "{text}");
        }
    }
}
