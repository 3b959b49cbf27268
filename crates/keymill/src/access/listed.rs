//! Tokens as lists show them: those on record in the store, and those of the settings.
//!
//! HTTP and the command line list them from here. Nothing here knows the text of a token.

use jiff::Timestamp;
use keymill_engine::operations::{ServiceError, TokenRecord};

/// A token, and where it is kept.
#[derive(Debug, Clone)]
pub struct ListedToken {
    /// What it is.
    pub record: TokenRecord,
    /// Where it is kept.
    pub source: TokenSource,
}

/// Where a token is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenSource {
    /// On record in the store, where it can be rotated and revoked.
    Store,
    /// In the settings of this instance.
    Settings,
}

/// All tokens, ordered by name.
pub fn list(on_record: Vec<TokenRecord>, configured: Vec<TokenRecord>) -> Vec<ListedToken> {
    let listed = |source| move |record| ListedToken { record, source };
    let on_record = on_record.into_iter().map(listed(TokenSource::Store));
    let configured = configured.into_iter().map(listed(TokenSource::Settings));
    let mut all: Vec<ListedToken> = on_record.chain(configured).collect();
    all.sort_by(|one, other| one.record.name.cmp(&other.record.name));
    all
}

/// The token of a name.
pub fn find(all: Vec<ListedToken>, name: &str) -> Result<ListedToken, ServiceError> {
    let found = all.into_iter().find(|token| token.record.name == name);
    found.ok_or_else(|| ServiceError::UnknownToken { name: name.to_owned() })
}

impl ListedToken {
    /// Whether it has ended.
    pub fn is_expired(&self) -> bool {
        self.record.expires_at.is_some_and(|end| end <= Timestamp::now())
    }

    /// Until when a text from before a rotation is valid, if one is.
    pub fn old_text_until(&self) -> Option<Timestamp> {
        let now = Timestamp::now();
        let ends = self.record.secrets.iter().filter_map(|secret| secret.until);
        ends.filter(|end| *end > now).max()
    }

    /// When it was made. The settings do not say so.
    pub fn created_at(&self) -> Option<Timestamp> {
        (self.source == TokenSource::Store).then_some(self.record.created_at)
    }
}

impl TokenSource {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TokenSource::Store => "store",
            TokenSource::Settings => "settings",
        }
    }
}
