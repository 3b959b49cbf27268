//! The tokens that this instance knows: in memory, so that requests ask nobody else.
//!
//! The table is made of the tokens on record in the store and of those in the settings, and replaced as a
//! whole when either has changed. `http` looks up every request here.
//!
//! # Invariants
//!
//! - Only hashes of tokens are here.
//! - The limits of a token go on counting when the table is replaced.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use keymill_engine::operations::TokenRecord;
use subtle::ConstantTimeEq;

use super::limits::TokenLimits;
use super::rights::Grants;
use super::secret_text::{TokenHash, parse_hash};

/// A token, as far as a request has to know.
#[derive(Debug)]
pub(super) struct Token {
    /// Its name, which is the caller in the use log.
    pub(super) name: Arc<str>,
    /// What it may do.
    pub(super) grants: Grants,
    /// How much of it.
    pub(super) limits: Arc<TokenLimits>,
    expires_at: Option<Timestamp>,
    /// Whether it is on record in the store, where it may be revoked at any time.
    pub(super) is_on_record: bool,
}

/// All tokens, by the hashes of their texts and by the names in client certificates.
#[derive(Default)]
pub(super) struct TokenTable {
    by_hash: HashMap<TokenHash, Entry>,
    by_certificate: HashMap<String, Arc<Token>>,
    limits: HashMap<Arc<str>, Arc<TokenLimits>>,
}

struct Entry {
    hash: TokenHash,
    token: Arc<Token>,
    /// When this text of the token ends, after a rotation.
    until: Option<Timestamp>,
}

impl TokenTable {
    /// The table of some tokens; limits that are unchanged are those of the table before. A record that
    /// cannot be read is left out and reported: it may have been written by a later version.
    pub(super) fn new(
        on_record: &[TokenRecord],
        configured: &[TokenRecord],
        before: &TokenTable,
    ) -> (TokenTable, Vec<String>) {
        let (mut table, mut problems) = (TokenTable::default(), Vec::new());
        let on_record = on_record.iter().map(|record| (record, true));
        let configured = configured.iter().map(|record| (record, false));
        for (record, is_on_record) in on_record.chain(configured) {
            let grants = Grants::parse(record.allow.iter().map(String::as_str));
            let grants = match grants {
                Ok(grants) => grants,
                Err(problem) => {
                    problems.push(format!("the token `{}` is ignored: {problem}", record.name));
                    continue;
                }
            };
            let name: Arc<str> = record.name.as_str().into();
            let kept = before.limits.get(&name).filter(|it| it.are(record.rate, record.quota));
            let made = || Arc::new(TokenLimits::new(record.rate, record.quota));
            let limits = kept.cloned().unwrap_or_else(made);
            table.limits.insert(name.clone(), limits.clone());
            let expires_at = record.expires_at;
            let token = Arc::new(Token { name, grants, limits, expires_at, is_on_record });
            for secret in &record.secrets {
                let Some(hash) = parse_hash(&secret.sha256) else {
                    problems.push(format!(
                        "the token `{}` has a hash that is not SHA-256 in hexadecimal",
                        record.name
                    ));
                    continue;
                };
                let entry = Entry { hash, token: token.clone(), until: secret.until };
                table.by_hash.insert(hash, entry);
            }
            if let Some(certificate) = &record.certificate {
                table.by_certificate.insert(certificate.clone(), token);
            }
        }
        (table, problems)
    }

    /// The token that a hash is of, if it is valid now.
    #[inline]
    pub(super) fn find(&self, hash: &TokenHash, now: Timestamp) -> Option<&Arc<Token>> {
        let entry = self.by_hash.get(hash)?;
        // The map has compared some of it in a time that depends on it; this compares all.
        let is_it: bool = entry.hash.ct_eq(hash).into();
        let lives = is_it && entry.until.is_none_or(|until| now < until);
        lives.then_some(&entry.token).filter(|token| token.is_valid(now))
    }

    /// When the text that a hash is of ends, because of a rotation or with its token.
    pub(super) fn end_of(&self, hash: &TokenHash) -> Option<Timestamp> {
        let entry = self.by_hash.get(hash)?;
        [entry.until, entry.token.expires_at].into_iter().flatten().min()
    }

    /// The token of a client certificate that has these names.
    pub(super) fn find_certificate(&self, names: &[String], now: Timestamp) -> Option<&Arc<Token>> {
        let mut found = names.iter().filter_map(|name| self.by_certificate.get(name));
        found.find(|token| token.is_valid(now))
    }
}

impl Token {
    fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

impl fmt::Debug for TokenTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Hashes are no secrets, but nobody needs them in a log either.
        write!(f, "TokenTable({} tokens)", self.limits.len())
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use jiff::SignedDuration;
    use keymill_engine::operations::TokenSecret;

    use super::super::secret_text;
    use super::*;

    #[test]
    fn a_token_is_found_by_its_text_until_it_ends() {
        let now = Timestamp::now();
        let (later, earlier) =
            (now + SignedDuration::from_secs(9), now - SignedDuration::from_secs(9));
        for (expires_at, until, is_found) in [
            (None, None, true),
            (Some(later), Some(later), true),
            (Some(earlier), None, false),
            (Some(now), None, false),
            (None, Some(earlier), false),
        ] {
            let (hash, record) = record(expires_at, until);
            let (table, problems) = TokenTable::new(from_ref(&record), &[], &TokenTable::default());
            assert!(problems.is_empty());
            let found = table.find(&hash, now);
            assert_eq!(found.is_some(), is_found, "{expires_at:?} {until:?}");
            assert!(table.find(&[7; 32], now).is_none());
        }
    }

    #[test]
    fn limits_go_on_counting_when_the_table_is_replaced() {
        let (hash, mut record) = record(None, None);
        record.rate = Some(10);
        let (first, _) = TokenTable::new(from_ref(&record), &[], &TokenTable::default());
        let limits =
            |table: &TokenTable| table.find(&hash, Timestamp::now()).unwrap().limits.clone();
        limits(&first).spend(10).unwrap();
        let (second, _) = TokenTable::new(from_ref(&record), &[], &first);
        assert!(limits(&second).spend(10).is_err());
        record.rate = Some(11);
        let (third, _) = TokenTable::new(from_ref(&record), &[], &second);
        assert!(limits(&third).spend(11).is_ok());
    }

    #[test]
    fn a_record_that_cannot_be_read_is_left_out_and_reported() {
        let (hash, mut record) = record(None, None);
        record.allow = vec!["fly:links".to_owned()];
        let (table, problems) = TokenTable::new(from_ref(&record), &[], &TokenTable::default());
        assert!(table.find(&hash, Timestamp::now()).is_none());
        assert!(problems[0].contains("`fly` is not a right"), "{problems:?}");
    }

    fn record(expires_at: Option<Timestamp>, until: Option<Timestamp>) -> (TokenHash, TokenRecord) {
        let hash = secret_text::hash(secret_text::make().unwrap().as_bytes()).unwrap();
        let record = TokenRecord {
            name: "shop".to_owned(),
            secrets: vec![TokenSecret { sha256: hex::encode(hash), until }],
            allow: vec!["take:links".to_owned()],
            expires_at,
            rate: None,
            quota: None,
            certificate: None,
            created_at: Timestamp::now(),
            created_by: "test".to_owned(),
        };
        (hash, record)
    }
}
