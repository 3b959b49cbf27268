//! Requests: the API that makes links, the redirects, and the page.
//!
//! Every path of its own is a word that keymill reserves (`api`, `static`, `health`), so no alias can hide one.

mod pages;

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Extension, Path, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, post};
use axum::{Json, Router};
use keymill_client::{ErrorKind, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use crate::keys::Keys;
use crate::links::{Link, Links};
use crate::problem::Problem;
use crate::settings::{Settings, Unknown};
use crate::target;
use crate::user::{User, identify};

/// The longest alias, in characters.
const ALIAS_LEN_MAX: usize = 16;
/// The longest time until a link expires: ten years.
const EXPIRY_SECONDS_MAX: i64 = 10 * 366 * 24 * 3_600;
/// How long browsers may follow a link without asking: so long it may work after it was ended.
const REDIRECT_SECONDS_MAX: i64 = 60;
/// The largest request.
const BODY_LEN_MAX: usize = 16 << 10;

/// What requests are answered with.
pub(crate) struct App {
    pub(crate) keys: Keys,
    pub(crate) links: Links,
    pub(crate) public_url: Url,
    pub(crate) settings: Settings,
}

type Shared = State<Arc<App>>;

/// A link to be made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLink {
    url: String,
    alias: Option<String>,
    expires_at: Option<Timestamp>,
    expires_in_seconds: Option<i64>,
}

/// A link as its owner sees it.
#[derive(Debug, Serialize)]
struct View {
    key: String,
    short_url: String,
    url: String,
    created_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    expired: bool,
}

pub(crate) fn router(app: App) -> Router {
    let app = Arc::new(app);
    Router::new()
        .route("/", get(pages::home))
        .route("/api/links", post(create).get(list))
        .route("/api/links/{key}", delete(end))
        .layer(from_fn_with_state(app.clone(), identify))
        .layer(DefaultBodyLimit::max(BODY_LEN_MAX))
        .route("/api/{*path}", any(async || Problem::unknown_path()))
        .route("/static/{file}", get(pages::file))
        .route("/health", get(health))
        .route("/{key}", get(follow))
        .fallback(async |State(app): Shared| not_here(&app, StatusCode::NOT_FOUND))
        .with_state(app)
}

/// Makes a link, or finds the one that this user already has for the URL.
async fn create(
    State(app): Shared,
    Extension(User(user)): Extension<User>,
    body: Result<Json<NewLink>, JsonRejection>,
) -> Result<Response, Problem> {
    let Json(new) = body?;
    let now = Timestamp::now();
    let url = target::check(&new.url, &app.public_url)
        .map_err(|problem| Problem::bad_request("bad_url", problem))?;
    let expires_at = expiry(&new, now)?;
    let key = match &new.alias {
        None => app.keys.take().await?.to_string(),
        Some(alias) => reserve(&app, alias, &user).await?,
    };
    let (is_alias, created_at) = (new.alias.is_some(), now.as_millisecond());
    let new = Link { key, owner: user, url, is_alias, created_at, expires_at, ended_at: None };
    let Some(link) = app.links.add(&new).await? else {
        return Err(Problem::alias_taken(&new.key));
    };
    let is_new = link.key == new.key && link.created_at == new.created_at;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let view = app.view(link, now);
    Ok((status, [(header::LOCATION, view.short_url.clone())], Json(view)).into_response())
}

/// Keymill decides who gets an alias. If this request fails later, the same user can ask again.
async fn reserve(app: &App, alias: &str, user: &str) -> Result<String, Problem> {
    if !(1..=ALIAS_LEN_MAX).contains(&alias.chars().count()) {
        let problem = format!("an alias has 1 to {ALIAS_LEN_MAX} characters");
        return Err(Problem::bad_request("bad_alias", problem));
    }
    app.keys.reserve(alias, user).await.map_err(|error| match error.kind() {
        ErrorKind::Taken => Problem::alias_taken(alias),
        _ => error.into(),
    })?;
    Ok(alias.to_owned())
}

/// When a new link expires, in milliseconds since 1970.
fn expiry(new: &NewLink, now: Timestamp) -> Result<Option<i64>, Problem> {
    let now = now.as_millisecond();
    let end = match (new.expires_at, new.expires_in_seconds) {
        (None, None) => return Ok(None),
        (Some(time), None) => Some(time.as_millisecond()),
        (None, Some(seconds)) => seconds.checked_mul(1_000).and_then(|time| now.checked_add(time)),
        (Some(_), Some(_)) => None,
    };
    let in_time = |end: &i64| (1..=EXPIRY_SECONDS_MAX * 1_000).contains(&(end - now));
    end.filter(in_time).map(Some).ok_or_else(|| {
        let problem = "give `expires_at` or `expires_in_seconds`, in the next ten years";
        Problem::bad_request("bad_expiry", problem)
    })
}

/// Redirects to where a link leads.
async fn follow(
    State(app): Shared,
    key: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let now = Timestamp::now();
    // What is not text is no key either.
    let key = key.map_or_else(|_| String::new(), |Path(key)| key);
    let Some(link) = app.links.find(&key).await? else {
        return Ok(not_here(&app, StatusCode::NOT_FOUND));
    };
    if link.has_ended(now) {
        return Ok(not_here(&app, StatusCode::GONE));
    }
    let left = link.expires_at.map_or(i64::MAX, |end| (end - now.as_millisecond()) / 1_000);
    let caching = format!("private, max-age={}", left.min(REDIRECT_SECONDS_MAX));
    let headers = [(header::LOCATION, link.url), (header::CACHE_CONTROL, caching)];
    Ok((StatusCode::FOUND, headers).into_response())
}

/// The newest links of this user.
async fn list(
    State(app): Shared,
    Extension(User(user)): Extension<User>,
) -> Result<Response, Problem> {
    let now = Timestamp::now();
    let links = app.links.list(&user).await?;
    let links: Vec<View> = links.into_iter().map(|link| app.view(link, now)).collect();
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(json!({"links": links}))).into_response())
}

/// Ends a link of this user.
async fn end(
    State(app): Shared,
    Extension(User(user)): Extension<User>,
    Path(key): Path<String>,
) -> Result<StatusCode, Problem> {
    match app.links.end(&key, &user, Timestamp::now()).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::unknown_link()),
    }
}

/// Whether links can be read now, and how many can be made without asking keymill.
async fn health(State(app): Shared) -> Result<Response, Problem> {
    app.links.check().await?;
    Ok(Json(json!({"status": "ok", "keys_ready": app.keys.ready()})).into_response())
}

/// What is answered where there is no link, or none any more.
fn not_here(app: &App, status: StatusCode) -> Response {
    match app.settings.unknown {
        Unknown::Page => pages::not_here(status),
        Unknown::Home => {
            let headers = [(header::LOCATION, "/"), (header::CACHE_CONTROL, "no-store")];
            (StatusCode::FOUND, headers).into_response()
        }
    }
}

impl App {
    fn view(&self, link: Link, now: Timestamp) -> View {
        let time = |time: i64| Timestamp::from_millisecond(time).ok();
        View {
            short_url: format!("{}{}", self.public_url, link.key),
            created_at: time(link.created_at),
            expires_at: link.expires_at.and_then(time),
            expired: link.has_ended(now),
            key: link.key,
            url: link.url,
        }
    }
}
