//! Values of the arguments of `bench`: times, rates, shares, sizes and stages.
//!
//! Each parser returns what a value must look like as its error.

use std::time::Duration;

/// The longest time that makes sense for anything here.
const TIME_MAX: f64 = 30.0 * 86_400.0;

/// So many per unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) count: u64,
    pub(super) per: Duration,
}

/// A share of a whole: 0.01 is 1 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share(pub(super) f64);

/// A ramp to a number of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) users: u32,
    pub(super) time: Duration,
}

/// All ramps, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stages(pub(super) Vec<Stage>);

/// Reads a time, such as 30s or 200ms.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` must be a time such as 200ms, 30s, 5m or 1h");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(wrong()),
    };
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
    match number * seconds {
        time if time > 0.0 && time <= TIME_MAX => Ok(Duration::from_secs_f64(time)),
        _ => Err(format!("`{text}` must be more than zero, and at most 30 days")),
    }
}

/// Reads a rate, such as 5000/s.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("`{text}` must be a rate of requests, such as 5000/s or 90/m");
    let (count, per) = match text.split_once('/') {
        None | Some((_, "s")) => (text.trim_end_matches("/s"), 1),
        Some((count, "m")) => (count, 60),
        Some(_) => return Err(wrong()),
    };
    let count = count.parse().ok().filter(|count| (1..=10_000_000).contains(count));
    Ok(Rate { count: count.ok_or_else(wrong)?, per: Duration::from_secs(per) })
}

/// Reads a share, such as 1%.
pub(super) fn share(text: &str) -> Result<Share, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number.filter(|number| (0.0..=100.0).contains(number)) {
        Some(percent) => Ok(Share(percent / 100.0)),
        None => Err(format!("`{text}` must be a share such as 1% or 0.1%")),
    }
}

/// Reads a number of bytes, such as 256MB.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || format!("`{text}` must be a size from 16MB to 1TB, such as 256MB or 2GB");
    let (number, unit) = match (text.strip_suffix("MB"), text.strip_suffix("GB")) {
        (Some(number), _) => (number, 1_usize << 20),
        (_, Some(number)) => (number, 1 << 30),
        _ => return Err(wrong()),
    };
    let bytes = number.trim().parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| (16 << 20..=1 << 40).contains(bytes)).ok_or_else(wrong)
}

/// Reads stages, such as 50:30s,1000:30s,0:30s.
pub(super) fn stages(text: &str) -> Result<Stages, String> {
    let stage = |part: &str| {
        let wrong = || format!("`{part}` must be USERS:TIME, such as 50:30s");
        let (users, length) = part.trim().split_once(':').ok_or_else(wrong)?;
        let users = users.parse().ok().filter(|users| *users <= 100_000).ok_or_else(wrong)?;
        Ok(Stage { users, time: time(length)? })
    };
    let stages = text.split(',').map(stage).collect::<Result<Vec<Stage>, String>>()?;
    match stages.iter().any(|stage| stage.users > 0) {
        true => Ok(Stages(stages)),
        false => Err("no stage has users".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_their_units() {
        let seconds = Duration::from_secs_f64;
        for (text, expected) in [
            ("30s", 30.0),
            ("1.5s", 1.5),
            ("200ms", 0.2),
            ("50us", 0.000_05),
            ("2m", 120.0),
            ("1h", 3_600.0),
        ] {
            assert_eq!(time(text), Ok(seconds(expected)));
        }
        let per = |seconds| Duration::from_secs(seconds);
        assert_eq!(rate("5000/s"), Ok(Rate { count: 5_000, per: per(1) }));
        assert_eq!(rate("7"), Ok(Rate { count: 7, per: per(1) }));
        assert_eq!(rate("90/m"), Ok(Rate { count: 90, per: per(60) }));
        assert_eq!(share("1%"), Ok(Share(0.01)));
        assert_eq!(share("0%"), Ok(Share(0.0)));
        assert_eq!([bytes("256MB"), bytes("2GB")], [Ok(256 << 20), Ok(2 << 30)]);
        let stage = |users, time| Stage { users, time: per(time) };
        assert_eq!(stages("50:30s, 0:1m"), Ok(Stages(vec![stage(50, 30), stage(0, 60)])));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_an_example() {
        for text in ["", "30", "s", "-1s", "1d", "0s", "1e3s", "nans", "infs", "99999h"] {
            assert!(time(text).is_err(), "{text}");
        }
        for text in ["", "0/s", "1/h", "x/s", "-5/s", "99999999999/s"] {
            assert!(rate(text).unwrap_err().contains("5000/s"), "{text}");
        }
        for text in ["", "1", "101%", "-1%", "NaN%", "x%"] {
            assert!(share(text).is_err(), "{text}");
        }
        for text in ["", "1MB", "256", "256mb", "99999999999999GB", "2000000GB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        for text in ["", "50", "50:", ":30s", "50:30s,", "0:30s", "200000:1s"] {
            assert!(stages(text).is_err(), "{text}");
        }
    }
}
