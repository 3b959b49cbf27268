//! Users: whose link it is.
//!
//! A company has a proxy in front that signs people in, and names its header in the settings. Without one, a browser
//! is a user: it gets a random ID in a cookie, which is all it takes to see and to end its links. Only a hash of it is
//! kept, so nobody can act as a user who reads the database of links or the aliases in keymill.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::problem::Problem;
use crate::web::App;

/// The cookie, and for how many seconds it is kept: the longest that browsers allow.
const COOKIE: &str = "user";
const COOKIE_SECONDS: u32 = 400 * 24 * 3_600;
/// The longest name of a user.
const LEN_MAX: usize = 128;

/// Who sends a request.
#[derive(Debug, Clone)]
pub(crate) struct User(pub(crate) String);

/// Finds out who sends a request, for the handlers behind it.
pub(crate) async fn identify(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (headers, mut new_cookie) = (request.headers(), None);
    let user = match &app.settings.user_header {
        Some(name) => signed_in(headers.get(name)).ok_or_else(|| unidentified(name.as_str()))?,
        None => cookie(headers).unwrap_or_else(|| {
            let id = Uuid::new_v4().simple().to_string();
            let secure = if app.public_url.scheme() == "https" { "; Secure" } else { "" };
            let cookie = format!(
                "{COOKIE}={id}; Path=/; HttpOnly; SameSite=Lax; Max-Age={COOKIE_SECONDS}{secure}"
            );
            new_cookie = HeaderValue::try_from(cookie).ok();
            name_of(&id)
        }),
    };
    request.extensions_mut().insert(User(user));
    let mut response = next.run(request).await;
    if let Some(cookie) = new_cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// The user that the proxy names.
fn signed_in(header: Option<&HeaderValue>) -> Option<String> {
    let name = header?.to_str().ok()?.trim();
    (1..=LEN_MAX).contains(&name.len()).then(|| name.to_owned())
}

/// The user in the cookie, if it is one of ours.
fn cookie(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|it| it.split_once('='));
    let (_, id) = pairs.find(|(name, _)| name.trim() == COOKIE)?;
    let is_ours = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_ours.then(|| name_of(id))
}

/// What a browser's user is called in the databases: half of a hash, from which nobody finds the ID.
fn name_of(id: &str) -> String {
    let hash = Sha256::digest(id.as_bytes());
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn unidentified(header: &str) -> Problem {
    let detail = format!("the header `{header}` does not name a user; sign in first");
    Problem::new(StatusCode::UNAUTHORIZED, "no_user", detail)
}
