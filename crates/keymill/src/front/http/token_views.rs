//! Tokens in requests and answers, for `tokens` and for the command line.

use jiff::Timestamp;
use keymill_engine::operations::{TokenRecord, TokenSecret};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::listed::{ListedToken, TokenSource};
use crate::front::view::SafeNumber;

/// A token to create.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Its name: lower-case letters, digits, `-`, `_` and `.`.
    pub(crate) name: String,
    /// Its rights, such as `take:links,coupons`, `read:shop-*` or `admin:*`.
    pub(crate) allow: Vec<String>,
    /// When it expires; never if left out.
    #[schema(value_type = Option<String>)]
    pub(crate) expires_at: Option<Timestamp>,
    /// How many keys it may take a second, and at once.
    pub(crate) rate: Option<u32>,
    /// How many keys it may take a day.
    pub(crate) quota: Option<u64>,
    /// A name in a client certificate that may be used instead of the token's text.
    pub(crate) certificate: Option<String>,
}

/// How to rotate a token.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rotation {
    /// For how many seconds the old text stays valid; 86,400 if left out.
    pub(crate) overlap_seconds: Option<u32>,
}

/// A token, without its text.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct TokenView {
    /// Its name.
    pub(crate) name: String,
    /// Where it is kept.
    pub(crate) source: SourceView,
    /// Its rights.
    pub(crate) allow: Vec<String>,
    /// When it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) expires_at: Option<Timestamp>,
    /// Whether it has expired.
    pub(crate) expired: bool,
    /// How many keys it may take a second, and at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<u32>,
    /// How many keys it may take a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SafeNumber>)]
    pub(crate) quota: Option<SafeNumber>,
    /// The name in a client certificate that stands for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
    /// When it was created; absent if it is in the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) created_at: Option<Timestamp>,
    /// Who created it.
    pub(crate) created_by: String,
    /// After a rotation: until when an old text is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) old_text_until: Option<Timestamp>,
}

/// Where a token is kept.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SourceView {
    /// In the store, known to every instance.
    Store,
    /// In the settings of this instance, where alone it can be changed.
    Settings,
}

/// A token with its text, which is shown only once.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct MadeToken {
    /// The text. It is not stored and cannot be shown again.
    pub(crate) token: String,
    /// What it is.
    #[serde(flatten)]
    pub(crate) view: TokenView,
}

/// A page of tokens.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Tokens {
    /// The tokens, ordered by name.
    pub(crate) tokens: Vec<TokenView>,
    /// Pass this as `after` to get the next page; absent on the last page.
    pub(crate) next: Option<String>,
    /// Whether callers need a token: there is one, or was one.
    pub(crate) required: bool,
    /// Whether the list was rolled back to an earlier state, so that tokens that were revoked since may be valid again.
    pub(crate) rolled_back: bool,
}

impl MadeToken {
    pub(super) fn new(record: TokenRecord, text: &str) -> MadeToken {
        let made = ListedToken { record, source: TokenSource::Store };
        MadeToken { token: text.to_owned(), view: made.into() }
    }
}

impl From<ListedToken> for TokenView {
    fn from(token: ListedToken) -> TokenView {
        let (expired, created_at) = (token.is_expired(), token.created_at());
        let old_text_until = token.old_text_until();
        let ListedToken { record, source } = token;
        TokenView {
            name: record.name,
            source: match source {
                TokenSource::Store => SourceView::Store,
                TokenSource::Settings => SourceView::Settings,
            },
            allow: record.allow,
            expires_at: record.expires_at,
            expired,
            rate: record.rate,
            quota: record.quota.map(SafeNumber::from),
            certificate: record.certificate,
            created_at,
            created_by: record.created_by,
            old_text_until,
        }
    }
}

impl From<TokenView> for ListedToken {
    fn from(view: TokenView) -> ListedToken {
        let record = TokenRecord {
            name: view.name,
            // Nobody is told their hashes, only until when an old one is valid.
            secrets: match view.old_text_until {
                Some(_) => vec![TokenSecret { sha256: String::new(), until: view.old_text_until }],
                None => Vec::new(),
            },
            allow: view.allow,
            expires_at: view.expires_at,
            rate: view.rate,
            quota: view.quota.map(SafeNumber::get),
            certificate: view.certificate,
            created_at: view.created_at.unwrap_or_default(),
            created_by: view.created_by,
        };
        let source = match view.source {
            SourceView::Store => TokenSource::Store,
            SourceView::Settings => TokenSource::Settings,
        };
        ListedToken { record, source }
    }
}
