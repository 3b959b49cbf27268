//! Texts that mean something to keymill, among texts that do not.
//!
//! Bytes alone would hardly ever name a keyspace or a field. An input chooses between a word of a list and any text.

use std::borrow::Cow;

use arbitrary::Arbitrary;

use crate::world::SPACES;

/// Names of parameters, fields and settings.
#[rustfmt::skip]
pub const FIELDS: &[&str] = &[
    "count", "caller", "numbers", "space", "input", "inputs", "scope", "owner", "after", "limit",
    "from", "to", "confirm", "first_line", "ignore_longer", "inputs_again", "up_to", "kind",
    "alphabet", "length", "prefix", "group", "check", "step", "offset", "normalize", "layout",
    "epoch", "uuid_version", "start", "lease_size_min", "lease_size_max", "horizon_seconds",
    "blocklist", "audit", "low_water", "ttl_seconds", "reserve_seconds", "window_seconds", "for",
    "replace_target", "name", "allow", "expires_at", "rate", "quota", "certificate",
    "overlap_seconds", "",
];

/// Values that some of them may have.
#[rustfmt::skip]
pub const VALUES: &[&str] = &[
    "shuffled", "sequential", "pooled", "digest", "snowflake", "uuid", "base62", "base32", "safe",
    "decimal", "hex", "01", "none", "url", "url-decoded", "batch", "key", "41/10/12", "twitter",
    "39/s8/w16@10ms", "javascript", "2025-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z",
    "-009999-01-02T01:59:59Z", "1", "0", "2000", "18446744073709551615", "true", "false", "null",
    "admin:*", "take:default", "first", "ab_0000-0000-00", "0000000", "9007199254740993",
    "0199c0de-0000-7000-8000-000000000000", "https://Example.com:443/a/../%7Eb?q#f",
    "HTTP://[::1]/%zz", "1735689600000-1", "1/first", "1e3", "\u{1f511}", "\u{0}", "~",
];

/// A text.
#[derive(Debug, Arbitrary)]
pub enum Text {
    /// A keyspace of the world.
    Space(u8),
    /// The name of something.
    Field(u8),
    /// A value that something may have.
    Value(u8),
    /// Any text.
    Any(String),
    /// A long one.
    Repeated(u8, u16),
}

impl Text {
    /// What it says.
    pub fn as_str(&self) -> Cow<'_, str> {
        match self {
            Text::Space(place) => pick(&SPACES, *place).into(),
            Text::Field(place) => pick(FIELDS, *place).into(),
            Text::Value(place) => pick(VALUES, *place).into(),
            Text::Any(text) => text.into(),
            // Longer than any text may be, and far shorter than a body may be.
            Text::Repeated(byte, count) => {
                char::from(byte & 0x7f).to_string().repeat(usize::from(count % 9_000)).into()
            }
        }
    }
}

/// One of a list.
pub fn pick<T: Copy>(list: &[T], place: u8) -> T {
    list[usize::from(place) % list.len()]
}
