//! Tokens: who may do what, as far as it is on record in the store; and what administrators did.
//!
//! The binary makes the texts of tokens and decides what they allow; here are only records of them, with
//! hashes. All of them are one list, which is read whole and replaced whole.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::input::shown;
use super::{Service, ServiceError};
use crate::fence::SeenTokens;
use crate::store::{Act, ActPage};

/// The longest name of a token.
const NAME_LEN_MAX: usize = 64;
/// The longest list, in bytes: every store takes one as long as this.
const LIST_LEN_MAX: usize = 1 << 20;
/// How often a change is tried while others change the list.
const TRIES: u32 = 20;
/// How long to wait for another try, at first.
const PAUSE: Duration = Duration::from_millis(5);
/// How much of each text of an act is kept, in characters.
const ACT_TEXT_MAX: usize = 1_000;

/// A token, as it is on record. Its text is not: nobody can read it off the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Its name, which no other token has.
    pub name: String,
    /// The texts that are valid: two of them while a rotation is under way.
    pub secrets: Vec<TokenSecret>,
    /// What it may do, as it was written.
    #[serde(default)]
    pub allow: Vec<String>,
    /// When it ends.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// The most keys a second.
    #[serde(default)]
    pub rate: Option<u32>,
    /// The most keys a day.
    #[serde(default)]
    pub quota: Option<u64>,
    /// The name in a client certificate that stands for the token.
    #[serde(default)]
    pub certificate: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it: a token, or the command line.
    pub created_by: String,
}

/// A text of a token, as far as it is on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSecret {
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// When it ends, if it does before the token.
    #[serde(default)]
    pub until: Option<Timestamp>,
}

/// The tokens on record, and what is known of the record itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTokens {
    /// Rises with every change.
    pub revision: u64,
    /// The tokens, in the order in which they were made.
    pub tokens: Vec<TokenRecord>,
    /// Whether there ever was a token, also when all were revoked or lost with the store: then callers need one.
    pub ever: bool,
    /// Whether the store was rolled back to an earlier list: tokens that were revoked since may be in it again.
    pub rolled_back: bool,
}

/// The list, as it is written. Fields that a later version has added are ignored.
#[derive(Debug, Default, Serialize, Deserialize)]
struct TokenDocument {
    tokens: Vec<TokenRecord>,
}

impl Service {
    /// The tokens on record in the store.
    pub async fn tokens(&self) -> Result<KnownTokens, ServiceError> {
        let seen = self.see_tokens().await?;
        let tokens = parse(&seen.list.text)?;
        let SeenTokens { list, rolled_back, ever } = seen;
        Ok(KnownTokens { revision: list.revision, tokens, ever, rolled_back })
    }

    /// Changes the tokens on record. Where others change them at the same time, `change` is called again, each
    /// time with the tokens as they are then; what it returned last counts.
    ///
    /// A list that was rolled back goes on from here, and is no longer reported: also by a change that
    /// leaves every token as it is.
    pub async fn change_tokens<T>(
        &self,
        mut change: impl FnMut(&mut Vec<TokenRecord>) -> Result<T, ServiceError> + Send,
    ) -> Result<T, ServiceError> {
        for number in 0..TRIES {
            if number > 0 {
                tokio::time::sleep(pause(number)).await;
            }
            let seen = self.see_tokens().await?;
            let before = parse(&seen.list.text)?;
            let mut after = before.clone();
            let answer = change(&mut after)?;
            if after == before && !seen.rolled_back {
                return Ok(answer);
            }
            check_changed(&before, &after)?;
            let text = written(after)?;
            if self.inner.fence.replace_tokens(&seen, text).await? {
                self.inner.health.tokens_are_good();
                return Ok(answer);
            }
        }
        Err(ServiceError::StoreUnavailable(format!(
            "gave up changing the tokens after {TRIES} conflicting writes; try again"
        )))
    }

    /// Puts on record what an administrator did: who, from where, and what.
    pub async fn record_act(&self, by: &str, from: &str, what: &str) -> Result<(), ServiceError> {
        let at = self.now();
        let [by, from, what] = [by, from, what].map(recordable);
        Ok(self.inner.fence.record_act(&Act { id: 0, at, by, from, what }).await?)
    }

    /// What administrators did, the newest last. The record keeps at least the last 10,000.
    pub async fn acts(&self, after: Option<u64>, limit: u32) -> Result<Vec<Act>, ServiceError> {
        if after.is_some_and(|after| i64::try_from(after).is_err()) {
            return Err(ServiceError::BadAfter);
        }
        Ok(self.store().tokens.acts(&ActPage { after, limit }).await?)
    }

    /// Reads the list, and says so where it was rolled back.
    async fn see_tokens(&self) -> Result<SeenTokens, ServiceError> {
        let seen = self.inner.fence.tokens().await?;
        if !seen.rolled_back {
            self.inner.health.tokens_are_good();
        } else if self.inner.health.tokens_rolled_back() {
            tracing::error!(code = "tokens_rolled_back", "{ROLLED_BACK}");
        }
        Ok(seen)
    }
}

/// What is wrong with a list that was rolled back, and what to do.
pub(super) const ROLLED_BACK: &str = "the token list was rolled back to an earlier state: tokens that were \
     revoked since may be valid again, and tokens that were created since are missing. Look at \
     `keymill token list`, and revoke again what must not be there with `keymill token revoke NAME`; the first \
     change of the list ends this warning";

/// Refuses what cannot be the name of a token.
pub fn check_token_name(name: &str) -> Result<(), ServiceError> {
    let fits = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    if (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(());
    }
    Err(ServiceError::BadToken(format!(
        "`{}` cannot be the name of a token: it must have 1 to {NAME_LEN_MAX} characters, which are lower-case \
         letters, digits, `-`, `_` or `.`",
        shown(name)
    )))
}

fn parse(text: &str) -> Result<Vec<TokenRecord>, ServiceError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    // The text is not repeated: it has hashes in it.
    let parsed: Result<TokenDocument, _> = serde_json::from_str(text);
    parsed.map(|document| document.tokens).map_err(|error| {
        ServiceError::Broken(format!(
            "the token list in the store cannot be read: {error}. It is damaged, or was written by a later \
             version of keymill"
        ))
    })
}

fn written(tokens: Vec<TokenRecord>) -> Result<String, ServiceError> {
    let text = serde_json::to_string(&TokenDocument { tokens });
    let text = text.expect("plain structs can be written as JSON");
    if text.len() > LIST_LEN_MAX {
        return Err(ServiceError::BadToken(format!(
            "there is no room for another token: the list of all tokens has at most {LIST_LEN_MAX} bytes; \
             revoke those that are not used"
        )));
    }
    Ok(text)
}

/// Refuses what a change has made, where it cannot be on record. What was there before stays.
fn check_changed(before: &[TokenRecord], after: &[TokenRecord]) -> Result<(), ServiceError> {
    let mut names = HashSet::new();
    for token in after {
        if !names.insert(&token.name) {
            return Err(ServiceError::TokenExists { name: token.name.clone() });
        }
    }
    for token in after.iter().filter(|token| !before.contains(token)) {
        check_token_name(&token.name)?;
        let is_hash =
            |text: &str| text.len() == 64 && text.bytes().all(|it| it.is_ascii_hexdigit());
        if !token.secrets.iter().all(|secret| is_hash(&secret.sha256)) {
            return Err(ServiceError::BadToken(format!(
                "the token `{}` has a hash that is not SHA-256 in hexadecimal",
                token.name
            )));
        }
    }
    Ok(())
}

/// A text as every store takes it, and as a terminal may show it.
fn recordable(text: &str) -> String {
    let plain = |it: char| if it.is_control() { ' ' } else { it };
    text.chars().take(ACT_TEXT_MAX).map(plain).collect()
}

/// Longer with each try, and not the same for all who try.
fn pause(number: u32) -> Duration {
    let mut random = [0_u8; 1];
    let _ = getrandom::fill(&mut random);
    (PAUSE * number).mul_f64(0.5 + f64::from(random[0]) / 256.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tokens_are_short_and_plain() {
        for good in ["shop", "a", "0", "-", "ci.deploy_2-eu", &"a".repeat(64)] {
            assert!(check_token_name(good).is_ok(), "{good}");
        }
        for bad in ["", "Shop", "a b", "a/b", "ä", "a\n", &"a".repeat(65)] {
            let refusal = check_token_name(bad).unwrap_err();
            assert!(matches!(refusal, ServiceError::BadToken(_)), "{refusal}");
        }
    }

    #[test]
    fn a_list_of_another_version_is_read_and_a_damaged_one_is_not() {
        assert_eq!(parse("").unwrap(), []);
        let text = r#"{"format":2,"tokens":[{"name":"shop","secrets":[{"sha256":"aa","salt":"x"}],
            "created_at":"2026-11-16T00:00:00Z","created_by":"cli","color":"red"}]}"#;
        let tokens = parse(text).unwrap();
        assert_eq!((tokens[0].name.as_str(), tokens[0].allow.len()), ("shop", 0));
        assert_eq!((tokens[0].rate, tokens[0].secrets[0].until), (None, None));
        for damaged in ["{", "[]", r#"{"tokens":[{"name":"shop"}]}"#] {
            let refusal = parse(damaged).unwrap_err();
            assert!(matches!(refusal, ServiceError::Broken(_)), "{refusal}");
        }
    }

    #[test]
    fn what_a_change_makes_is_checked_and_what_was_there_is_not() {
        let odd = token("Odd", "no hash");
        assert!(check_changed(std::slice::from_ref(&odd), std::slice::from_ref(&odd)).is_ok());
        assert!(check_changed(&[], &[token("a", &hash()), token("b", &hash())]).is_ok());
        let twice = [token("a", &hash()), token("a", &hash())];
        let refusal = check_changed(&twice[..1], &twice).unwrap_err();
        assert!(matches!(refusal, ServiceError::TokenExists { .. }), "{refusal}");
        for bad in [odd, token("a", "abc"), token("a", &"g".repeat(64))] {
            let refusal = check_changed(&[], &[bad]).unwrap_err();
            assert!(matches!(refusal, ServiceError::BadToken(_)), "{refusal}");
        }
    }

    #[test]
    fn a_list_has_an_end() {
        let mut tokens = vec![token("a", &hash())];
        assert!(written(tokens.clone()).is_ok());
        tokens[0].allow = vec!["x".repeat(LIST_LEN_MAX)];
        assert!(matches!(written(tokens), Err(ServiceError::BadToken(_))));
    }

    #[test]
    fn what_is_put_on_record_is_short_and_has_no_control_characters() {
        assert_eq!(recordable("a\u{1b}[2J\0b"), "a [2J b");
        assert_eq!(recordable(&"ä".repeat(5_000)).chars().count(), ACT_TEXT_MAX);
    }

    fn token(name: &str, sha256: &str) -> TokenRecord {
        TokenRecord {
            name: name.to_owned(),
            secrets: vec![TokenSecret { sha256: sha256.to_owned(), until: None }],
            allow: Vec::new(),
            expires_at: None,
            rate: None,
            quota: None,
            certificate: None,
            created_at: Timestamp::UNIX_EPOCH,
            created_by: "cli".to_owned(),
        }
    }

    fn hash() -> String {
        "ab".repeat(32)
    }
}
