//! Query parameters: decoded in one place, for every path.
//!
//! Handlers name the parameters that they know and get the values in that order. A `+` is a space, as
//! in HTML forms. Plain values are borrowed from the URL: a take with `count` allocates nothing here.
//! The percent-encoding was checked before ([`super::check_encoding`]).

use std::array;
use std::borrow::Cow;
use std::ops::RangeInclusive;

use hyper::Uri;
use jiff::Timestamp;
use keymill_engine::space::CAPACITY_MAX;

use super::Problem;
use crate::front::time::{TIME, read_bound};

/// The values of the named parameters, in the same order. Others are refused, because a misspelt
/// `count` would silently return one key.
pub(super) fn query<'a, const N: usize>(
    uri: &'a Uri,
    names: &[&'static str; N],
) -> Result<[Option<Cow<'a, str>>; N], Problem> {
    let mut values: [Option<Cow<'a, str>>; N] = array::from_fn(|_| None);
    let text = uri.query().unwrap_or_default();
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        match names.iter().position(|known| name == *known) {
            Some(at) if values[at].is_none() => values[at] = Some(value),
            Some(_) => return Err(Problem::repeated_parameter(&name)),
            None => return Err(Problem::unknown_parameter(&name, names)),
        }
    }
    Ok(values)
}

/// The first value of a parameter, whatever else there is: for what has to be known before a request is
/// checked.
pub(super) fn query_value<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(known, _)| known == name);
    found.next().map(|(_, value)| value)
}

/// Refuses every parameter, on a path that has none.
pub(super) fn no_query(uri: &Uri) -> Result<(), Problem> {
    query(uri, &[]).map(|[]| ())
}

/// A whole number within its bounds. Only digits: Rust would also read `+1`.
pub(super) fn whole_number(text: &str, bounds: RangeInclusive<u32>) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u32>().ok().filter(|number| is_plain && bounds.contains(number))
}

/// An ordinal, which has up to 63 bits.
pub(super) fn ordinal(name: &str, value: Option<&str>) -> Result<Option<u64>, Problem> {
    let read = |text: &str| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_plain && *number <= CAPACITY_MAX);
        number.ok_or_else(|| {
            let problem = format!("`{name}` must be a whole number from 0 to {CAPACITY_MAX}");
            Problem::bad_parameter(problem)
        })
    };
    value.map(read).transpose()
}

/// Whether `confirm` confirms that a keyspace is meant. Any other value than its name is refused.
pub(super) fn confirmed(value: Option<&str>, space: &str) -> Result<bool, Problem> {
    match value {
        None => Ok(false),
        Some(name) if name == space => Ok(true),
        Some(_) => Err(Problem::unconfirmed(space)),
    }
}

/// `true` or `false`.
pub(super) fn switch(name: &str, value: Option<&str>) -> Result<Option<bool>, Problem> {
    match value {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(Problem::bad_parameter(format!("`{name}` must be true or false"))),
    }
}

/// The beginning or the end of a period.
pub(super) fn time(name: &str, value: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let read = |text: &str| {
        read_bound(text).ok_or_else(|| Problem::bad_parameter(format!("`{name}` must be {TIME}")))
    };
    value.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plus_is_a_space_and_plain_values_are_borrowed() {
        let uri = Uri::from_static("/x?caller=a+b%2Bc&count=3");
        let [count, caller] = query(&uri, &["count", "caller"]).unwrap();
        assert_eq!(caller.as_deref(), Some("a b+c"));
        assert!(matches!(count, Some(Cow::Borrowed("3"))));
    }

    #[test]
    fn only_digits_are_a_whole_number() {
        assert_eq!(whole_number("7", 1..=7), Some(7));
        for text in ["", "0", "8", "+7", "-1", "7.0", " 7", "0x7", "99999999999"] {
            assert_eq!(whole_number(text, 1..=7), None, "{text}");
        }
    }
}
