//! `/v1/tokens`: tokens are made, listed, rotated and revoked. `/v1/acts`: what administrators did.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use axum::{Extension, Json};
use bytes::Bytes;
use hyper::{Request, Response, StatusCode, Uri};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::admission::Sender;
use super::body::{Undescribed, no_body};
use super::needs::{self, Need};
use super::origin::Origin;
use super::page::{self, Page};
use super::params::{no_query, query};
use super::token_views::{MadeToken, NewToken, Rotation, TokenView, Tokens};
use super::{Problem, State, body};
use crate::access::issue::{self, TokenAsk};
use crate::access::listed::{self, ListedToken};
use crate::access::rights::Right;
use crate::access::{Access, Caller};
use crate::front::view::SafeNumber;

/// What an administrator did.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ActView {
    /// Its number, rising with time.
    #[schema(value_type = SafeNumber)]
    id: SafeNumber,
    /// When.
    #[schema(value_type = String)]
    at: Timestamp,
    /// The token that was used.
    by: String,
    /// The address that it came from.
    from: String,
    /// The request.
    what: String,
}

/// A page of acts.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Acts {
    /// The acts, oldest first.
    acts: Vec<ActView>,
    /// Pass this as `after` to get the next page; absent on the last page.
    next: Option<String>,
}

/// Lists tokens, ordered by name: those of the store, and those in the settings of this instance. Their texts are
/// not shown.
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", operation_id = "list_tokens",
    params(
        ("after" = Option<String>, Query, description = "The `next` of the previous page"),
        ("limit" = Option<u32>, Query, description = "How many to list"),
    ),
    responses(
        (status = 200, description = "A page of tokens", body = Tokens),
        (status = 400, description = "`bad_parameter`, `repeated_parameter`"),
    ))]
pub(super) async fn list(Shared(state): Shared<State>, uri: Uri) -> Result<Page<Tokens>, Problem> {
    let [after, limit] = query(&uri, &["after", "limit"])?;
    let (after, limit) = (page::after(after)?, page::limit(limit.as_deref())?);
    let known = state.service.tokens().await?;
    let rolled_back = known.rolled_back;
    let tokens = listed::list(known.tokens, state.access.configured());
    let is_behind =
        |token: &ListedToken| after.as_ref().is_none_or(|after| token.record.name > *after);
    let tokens: Vec<ListedToken> =
        tokens.into_iter().filter(is_behind).take(limit as usize).collect();
    let next = page::next(&tokens, limit, |token| token.record.name.clone());
    let tokens = tokens.into_iter().map(TokenView::from).collect();
    let required = known.ever || state.access.is_on();
    let page = Tokens { tokens, next: next.clone(), required, rolled_back };
    Ok(Page::new(&uri, next.as_deref(), page))
}

/// Shows a token, without its text.
#[utoipa::path(get, path = "/v1/tokens/{name}", tag = "tokens", operation_id = "get_token",
    params(("name" = String, Path, description = "The token's name")),
    responses(
        (status = 200, description = "The token", body = TokenView),
        (status = 404, description = "`unknown_token`"),
    ))]
pub(super) async fn show(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Json<TokenView>, Problem> {
    let Path(name) = path?;
    no_query(&uri)?;
    let tokens = listed::list(state.service.tokens().await?.tokens, state.access.configured());
    Ok(Json(listed::find(tokens, &name)?.into()))
}

/// Creates a token. The answer has its text, which is not stored and cannot be shown again.
#[utoipa::path(post, path = "/v1/tokens", tag = "tokens", operation_id = "create_token",
    request_body(content = NewToken, description = "What it may do"),
    responses(
        (status = 201, description = "Created", body = MadeToken),
        (status = 400, description = "`bad_token`"),
        (status = 409, description = "`token_exists`"),
        (status = 503, description = "`store_rolled_back`"),
    ))]
pub(super) async fn create(
    Shared(state): Shared<State>,
    sender: Sender,
    uri: Uri,
    body: Bytes,
) -> Result<(StatusCode, Extension<Subject>, Json<MadeToken>), Problem> {
    no_query(&uri)?;
    let NewToken { name, allow, expires_at, rate, quota, certificate } = body::object(&body)?;
    let ask = TokenAsk { name, allow, expires_at, rate, quota, certificate };
    let by = sender.token_name().unwrap_or_default();
    let (record, text) =
        issue::create(&state.service, &ask, by, &state.access.configured_names()).await?;
    learn(&state).await;
    let subject = Extension(Subject(record.name.clone()));
    let made = Json(MadeToken::new(record, &text));
    Ok((StatusCode::CREATED, subject, made))
}

/// Gives a token a new text. The old one stays valid for the overlap.
#[utoipa::path(post, path = "/v1/tokens/{name}/rotate", tag = "tokens", operation_id = "rotate_token",
    params(("name" = String, Path, description = "The token's name")),
    request_body(content = Rotation, description = "How long the old text stays valid"),
    responses(
        (status = 200, description = "The token with its new text", body = MadeToken),
        (status = 400, description = "`bad_token`"),
        (status = 404, description = "`unknown_token`"),
        (status = 503, description = "`store_rolled_back`"),
    ))]
pub(super) async fn rotate(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
    body: Bytes,
) -> Result<Json<MadeToken>, Problem> {
    let Path(name) = path?;
    no_query(&uri)?;
    let Rotation { overlap_seconds } = body::object(&body)?;
    let overlap = SignedDuration::from_secs(overlap_seconds.unwrap_or(86_400).into());
    let configured = state.access.configured_names();
    let (record, text) = issue::rotate(&state.service, &name, overlap, &configured).await?;
    learn(&state).await;
    Ok(Json(MadeToken::new(record, &text)))
}

/// Revokes a token: at once on this instance, and within a heartbeat on all others.
#[utoipa::path(delete, path = "/v1/tokens/{name}", tag = "tokens", operation_id = "revoke_token",
    params(("name" = String, Path, description = "The token's name")),
    responses(
        (status = 204, description = "Revoked"),
        (status = 400, description = "`bad_body`: it takes no body; `bad_token`: it is in the settings"),
        (status = 404, description = "`unknown_token`"),
        (status = 408, description = "`body_too_slow`"),
        (status = 413, description = "`body_too_large`"),
        (status = 503, description = "`store_rolled_back`"),
    ))]
pub(super) async fn revoke(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
    body: Undescribed,
) -> Result<StatusCode, Problem> {
    let Path(name) = path?;
    no_query(&uri)?;
    no_body(&body, "everything is in the URL")?;
    issue::revoke(&state.service, &name, &state.access.configured_names()).await?;
    learn(&state).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists what administrators did, oldest first.
#[utoipa::path(get, path = "/v1/acts", tag = "audit", operation_id = "list_acts",
    params(
        ("after" = Option<String>, Query, description = "The `next` of the previous page"),
        ("limit" = Option<u32>, Query, description = "How many to list"),
    ),
    responses(
        (status = 200, description = "A page of acts", body = Acts),
        (status = 400, description = "`bad_parameter`, `repeated_parameter`"),
    ))]
pub(super) async fn acts(Shared(state): Shared<State>, uri: Uri) -> Result<Page<Acts>, Problem> {
    let [after, limit] = query(&uri, &["after", "limit"])?;
    let limit = page::limit(limit.as_deref())?;
    let number = |text: &str| {
        let is_plain = text.len() <= 19 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_plain && *number <= i64::MAX as u64)
    };
    let after = after.map(|after| number(&after).ok_or_else(page::bad_after)).transpose()?;
    let acts = state.service.acts(after, limit).await?;
    let next = page::next(&acts, limit, |act| act.id.to_string());
    let acts = acts.into_iter().map(|act| ActView {
        id: act.id.into(),
        at: act.at,
        by: act.by,
        from: act.from,
        what: act.what,
    });
    let acts = acts.collect();
    Ok(Page::new(&uri, next.clone().as_deref(), Acts { acts, next }))
}

/// What an act was about, where its path does not tell.
#[derive(Debug, Clone)]
pub(in crate::front) struct Subject(pub(super) String);

/// Marks the answer to a request that has changed nothing, and need not be on record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unchanged;

impl Unchanged {
    /// Whether an answer is marked so.
    pub(super) fn is_in<B>(answer: &Response<B>) -> bool {
        answer.extensions().get::<Unchanged>().is_some()
    }
}

/// What an administrator is about to do, for the record.
pub(in crate::front) struct Act {
    by: String,
    from: String,
    what: String,
}

impl Act {
    /// What a request does, if that needs `admin` and changes something, and callers are told apart.
    pub(super) fn of<B>(
        state: &State,
        origin: &Origin,
        caller: &Arc<Caller>,
        request: &Request<B>,
    ) -> Option<Act> {
        let by = caller.token_name()?.to_owned();
        let (method, path) = (request.method(), request.uri().path());
        let need = needs::of(method, path, None, "");
        if !matches!(need, Need::Right(Right::Admin, _)) || !needs::changes(method, path) {
            return None;
        }
        let client = origin.client(request.headers(), &state.address_rules.load());
        let from = client.map(|client| client.to_string()).unwrap_or_default();
        Some(Act { by, from, what: format!("{method} {path}") })
    }

    /// What a caller does from an address, over a protocol in which the path does not tell.
    #[cfg(feature = "grpc")]
    pub(in crate::front) fn new(by: &str, from: String, what: String) -> Act {
        Act { by: by.to_owned(), from, what }
    }

    /// Whether a part of it may have been done although it was refused: it is an import. Whatever else has such a word at
    /// its end has it as a name.
    pub(super) fn may_be_partial(&self) -> bool {
        let Some(path) = self.what.strip_prefix("POST ") else { return false };
        let below = path.strip_prefix("/v1/spaces/").and_then(|rest| rest.split_once('/'));
        path == "/v1/import" || matches!(below, Some((_, "pool" | "used-keys")))
    }

    /// Puts it on record. It has happened, so a failure is only reported.
    pub(in crate::front) async fn record(self, state: &State, subject: Option<Subject>) {
        let Act { by, from, mut what } = self;
        if let Some(Subject(name)) = subject {
            what = format!("{what} {name}");
        }
        if let Err(error) = state.service.record_act(&by, &from, &what).await {
            tracing::error!(
                by,
                from,
                what,
                "an administrator's act could not be recorded: {error}"
            );
        }
    }
}

/// Has this instance know of a change at once. Where that fails, the next heartbeat does.
async fn learn(state: &State) {
    let access: &Access = &state.access;
    if let Err(error) = access.reread(&state.service).await {
        tracing::warn!("the changed list of tokens could not be read again: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_imports_may_be_done_in_part() {
        for (what, expected) in [
            ("POST /v1/import", true),
            ("POST /v1/spaces/links/pool", true),
            ("POST /v1/spaces/links/used-keys", true),
            ("PATCH /v1/spaces/import", false),
            ("PUT /v1/spaces/pool", false),
            ("POST /v1/spaces/pool/grow", false),
            ("POST /v1/spaces/links/pool/fill", false),
            ("DELETE /v1/tokens/pool", false),
            ("DELETE /v1/tokens/used-keys", false),
        ] {
            let act = Act { by: String::new(), from: String::new(), what: what.to_owned() };
            assert_eq!(act.may_be_partial(), expected, "{what}");
        }
    }
}
