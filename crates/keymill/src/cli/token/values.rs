//! Values of the arguments of `keymill token`: times, and how much in which time.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::cli::usage;

/// How many characters a date has: 2027-01-01.
const DATE_LEN: usize = 10;

/// A number of something: `5000/s`, or without its unit.
pub(super) fn per<T: std::str::FromStr>(text: &str, unit: &str) -> Result<T, String> {
    let number = text.strip_suffix(unit).unwrap_or(text);
    number.parse().map_err(|_| format!("`{text}` must be a whole number such as 5000{unit}"))
}

/// A time from now on, a day, which begins at midnight UTC, or a moment.
pub(super) fn expiry(text: &str) -> anyhow::Result<Timestamp> {
    if let Some(moment) = text.parse().ok().or_else(|| midnight(text)) {
        return Ok(moment);
    }
    let after = duration(text).map_err(|_| {
        format!(
            "`{text}` must be a time from now such as 90d or 12h, a date such as 2027-01-01, or \
             2027-01-01T00:00:00Z"
        )
    });
    let end = Timestamp::now().checked_add(usage(after)?);
    usage(end.map_err(|_| format!("`{text}` is too far in the future")))
}

/// The beginning of a day in UTC.
fn midnight(text: &str) -> Option<Timestamp> {
    // The parser would pass over a time behind the date, which has no zone.
    let date: Date = text.parse().ok().filter(|_| text.len() == DATE_LEN)?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// `90d`, `12h`, `30m`, `0s`.
pub(super) fn duration(text: &str) -> Result<SignedDuration, String> {
    let refusal = || format!("`{text}` must be a time such as 90d, 12h, 30m or 10s");
    let unit = text.chars().last().ok_or_else(refusal)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(refusal()),
    };
    let number: u32 = text[..text.len() - 1].parse().map_err(|_| refusal())?;
    Ok(SignedDuration::from_secs(i64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        for (text, seconds) in [("0s", 0), ("30m", 1_800), ("24h", 86_400), ("90d", 7_776_000)] {
            assert_eq!(duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["", "d", "5", "-1d", "1.5h", "1w", "1 d", "ä"] {
            assert!(duration(text).unwrap_err().contains("such as 90d"), "{text}");
        }
    }

    #[test]
    fn an_expiry_is_a_moment_a_day_or_a_time_from_now() {
        let moment = |text: &str| expiry(text).map(|it| it.to_string());
        assert_eq!(moment("2027-01-01").unwrap(), "2027-01-01T00:00:00Z");
        assert_eq!(moment("2027-01-01T12:00:00+02:00").unwrap(), "2027-01-01T10:00:00Z");
        let after = expiry("90d").unwrap().duration_since(Timestamp::now());
        assert!((90 * 24 - 1..=90 * 24).contains(&after.as_hours()), "{after:?}");
        for text in ["2027-01-01T00:00:00", "2027-01", "2027-13-01", "2027-02-30", "20270101", "x"]
        {
            let error = expiry(text).unwrap_err().to_string();
            assert!(error.contains("a date such as 2027-01-01"), "{text}: {error}");
        }
    }

    #[test]
    fn rates_may_name_their_unit() {
        assert_eq!(per::<u32>("5000/s", "/s"), Ok(5_000));
        assert_eq!(per::<u64>("1000000", "/d"), Ok(1_000_000));
        assert!(per::<u32>("5000/d", "/s").unwrap_err().contains("5000/s"));
        assert!(per::<u32>("many", "/s").is_err());
    }
}
