//! Rights: what a token, or a caller without one, may do, and in which keyspaces.
//!
//! `table` holds the grants of every token; `http` asks what a request needs. Nothing here knows a protocol.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest pattern: a keyspace's name has at most 64 characters.
const PATTERN_LEN_MAX: usize = 65;

/// Something that may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Take keys.
    Take,
    /// Reserve aliases, digest inputs, retire keys.
    Name,
    /// Explain keys, read keyspaces, lists and the use log.
    Read,
    /// Create and change keyspaces, pools, tokens. It includes the others.
    Admin,
}

/// A right in some keyspaces: `take:links`, `read:shop-*`, `admin:*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    right: Right,
    pattern: Pattern,
}

/// Some keyspaces: one by its name, or all whose names begin alike.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Name(Box<str>),
    Prefix(Box<str>),
}

/// Everything that somebody may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(Vec<Grant>);

impl Right {
    const ALL: [Right; 4] = [Right::Take, Right::Name, Right::Read, Right::Admin];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Right::Take => "take",
            Right::Name => "name",
            Right::Read => "read",
            Right::Admin => "admin",
        }
    }
}

impl Grants {
    /// Everything, everywhere.
    pub fn all() -> Grants {
        Grants(vec![Grant { right: Right::Admin, pattern: Pattern::Prefix("".into()) }])
    }

    /// Parses what users write, each entry a right with its keyspaces: `take:links,coupons`.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Grants, String> {
        let mut grants = Vec::new();
        for text in texts {
            let (right, patterns) = text.split_once(':').ok_or_else(|| refusal(text))?;
            let right = right.trim().parse()?;
            for pattern in patterns.split(',') {
                grants.push(Grant { right, pattern: pattern.trim().parse()? });
            }
        }
        Ok(Grants(grants))
    }

    /// Whether they allow something in a keyspace; without one, in all of them.
    #[inline]
    pub fn allow(&self, right: Right, space: Option<&str>) -> bool {
        self.0.iter().any(|grant| {
            (grant.right == right || grant.right == Right::Admin) && grant.pattern.matches(space)
        })
    }

    /// Whether they allow nothing at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As users write them, one entry a right and pattern.
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

impl Pattern {
    #[inline]
    fn matches(&self, space: Option<&str>) -> bool {
        match (self, space) {
            (Pattern::Name(name), Some(space)) => **name == *space,
            (Pattern::Prefix(prefix), Some(space)) => space.starts_with(&**prefix),
            (Pattern::Prefix(prefix), None) => prefix.is_empty(),
            (Pattern::Name(_), None) => false,
        }
    }
}

impl FromStr for Right {
    type Err = String;

    fn from_str(text: &str) -> Result<Right, String> {
        let found = Right::ALL.into_iter().find(|right| right.name() == text);
        found.ok_or_else(|| {
            format!("`{text}` is not a right; the rights are take, name, read and admin")
        })
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |name| (name, true));
        let fits = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
        };
        let is_empty = name.is_empty() && !is_prefix;
        if is_empty || text.len() > PATTERN_LEN_MAX || !name.bytes().all(fits) {
            return Err(format!(
                "`{text}` is not a keyspace or a pattern; write a name such as links, or a beginning such as \
                 shop-*, or * for all"
            ));
        }
        Ok(if is_prefix { Pattern::Prefix(name.into()) } else { Pattern::Name(name.into()) })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Name(name) => write!(f, "{}:{name}", self.right.name()),
            Pattern::Prefix(prefix) => write!(f, "{}:{prefix}*", self.right.name()),
        }
    }
}

fn refusal(text: &str) -> String {
    format!("`{text}` does not say where: write RIGHT:KEYSPACE, such as take:links or read:shop-*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_allows_its_right_in_its_keyspaces_alone() {
        let grants = grants(&["take:links,coupons", "read:shop-*"]);
        for (right, space, expected) in [
            (Right::Take, Some("links"), true),
            (Right::Take, Some("coupons"), true),
            (Right::Take, Some("link"), false),
            (Right::Take, Some("links2"), false),
            (Right::Read, Some("shop-1"), true),
            (Right::Read, Some("shop-"), true),
            (Right::Read, Some("shop"), false),
            (Right::Read, None, false),
            (Right::Name, Some("links"), false),
            (Right::Admin, Some("links"), false),
        ] {
            assert_eq!(grants.allow(right, space), expected, "{right:?} {space:?}");
        }
    }

    #[test]
    fn admin_includes_every_right_where_it_holds() {
        let grants = grants(&["admin:shop-*"]);
        for right in Right::ALL {
            assert!(grants.allow(right, Some("shop-1")));
            assert!(!grants.allow(right, Some("links")));
            assert!(!grants.allow(right, None));
            assert!(Grants::all().allow(right, None));
        }
    }

    #[test]
    fn what_is_no_grant_is_refused_with_its_text() {
        for (text, says) in [
            ("take", "`take` does not say where"),
            ("steal:links", "`steal` is not a right"),
            ("take:", "`` is not a keyspace"),
            ("take:links,", "`` is not a keyspace"),
            ("take:Links", "`Links` is not a keyspace"),
            ("take:a*b", "`a*b` is not a keyspace"),
            ("take:**", "`**` is not a keyspace"),
        ] {
            let error = Grants::parse([text]).unwrap_err();
            assert!(error.starts_with(says), "{text}: {error}");
        }
    }

    #[test]
    fn grants_are_written_as_they_were_read() {
        let texts = ["take:links", "read:*", "admin:shop-*"];
        assert_eq!(grants(&texts).texts(), texts);
    }

    fn grants(texts: &[&str]) -> Grants {
        Grants::parse(texts.iter().copied()).unwrap()
    }
}
