//! Making, rotating and revoking tokens: the same for HTTP and the command line.
//!
//! The text of a token is returned once and kept nowhere.

use jiff::{SignedDuration, Timestamp};
use keymill_engine::operations::{Service, ServiceError, TokenRecord, TokenSecret};
use zeroize::Zeroizing;

use super::rights::Grants;
use super::{check_name, secret_text};

/// How long an old text stays valid at most after a rotation.
pub const OVERLAP_MAX: SignedDuration = SignedDuration::from_hours(24 * 90);

/// A token to make.
#[derive(Debug, Clone, Default)]
pub struct TokenAsk {
    /// Its name.
    pub name: String,
    /// What it may do, such as `take:links,coupons`.
    pub allow: Vec<String>,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// Keys a second, and at once.
    pub rate: Option<u32>,
    /// Keys a day.
    pub quota: Option<u64>,
    /// A name in a client certificate that stands for the token's text.
    pub certificate: Option<String>,
}

/// Makes a token; its record and its text. `configured` are names that the settings use.
pub async fn create(
    service: &Service,
    ask: &TokenAsk,
    by: &str,
    configured: &[String],
) -> Result<(TokenRecord, Zeroizing<String>), ServiceError> {
    if configured.contains(&ask.name) {
        return Err(ServiceError::BadToken(format!(
            "the settings have a token `{}`; choose another name",
            ask.name
        )));
    }
    let (record, text) = make(ask, by)?;
    service
        .change_tokens(|tokens| {
            if tokens.iter().any(|token| token.name == record.name) {
                return Err(ServiceError::TokenExists { name: record.name.clone() });
            }
            let is_same = |token: &&TokenRecord| {
                token.certificate.is_some() && token.certificate == record.certificate
            };
            if let Some(other) = tokens.iter().find(is_same) {
                return Err(ServiceError::BadToken(format!(
                    "the certificate name already stands for the token `{}`",
                    other.name
                )));
            }
            tokens.push(record.clone());
            Ok(())
        })
        .await?;
    Ok((record, text))
}

/// Makes a token that is on record nowhere; its record and its text.
pub fn make(ask: &TokenAsk, by: &str) -> Result<(TokenRecord, Zeroizing<String>), ServiceError> {
    check_name(&ask.name)?;
    let grants = Grants::parse(ask.allow.iter().map(String::as_str));
    let grants = grants.map_err(ServiceError::BadToken)?;
    if grants.is_empty() {
        let problem = "a token needs rights, such as take:links or read:*".to_owned();
        return Err(ServiceError::BadToken(problem));
    }
    if ask.expires_at.is_some_and(|end| end <= Timestamp::now()) {
        return Err(ServiceError::BadToken("a token must expire in the future".to_owned()));
    }
    if ask.rate == Some(0) || ask.quota == Some(0) {
        let problem = "rate and quota must be at least 1; leave them out for no limit".to_owned();
        return Err(ServiceError::BadToken(problem));
    }
    let (text, secret) = new_secret()?;
    let record = TokenRecord {
        name: ask.name.clone(),
        secrets: vec![secret],
        allow: grants.texts(),
        expires_at: ask.expires_at,
        rate: ask.rate,
        quota: ask.quota,
        certificate: ask.certificate.as_deref().map(canonical),
        created_at: in_millis(Timestamp::now()),
        created_by: by.to_owned(),
    };
    Ok((record, text))
}

/// Gives a token another text; the old one stays valid for a while. `configured` are names that the settings use.
pub async fn rotate(
    service: &Service,
    name: &str,
    overlap: SignedDuration,
    configured: &[String],
) -> Result<(TokenRecord, Zeroizing<String>), ServiceError> {
    if overlap.is_negative() || overlap > OVERLAP_MAX {
        return Err(ServiceError::BadToken("an overlap must be from 0 to 90 days".to_owned()));
    }
    let (text, secret) = new_secret()?;
    let now = Timestamp::now();
    let until = in_millis(now + overlap);
    let record = service
        .change_tokens(|tokens| {
            let token = tokens.iter_mut().find(|token| token.name == name);
            let token = token.ok_or_else(|| not_on_record(name, configured))?;
            if token.expires_at.is_some_and(|end| end <= now) {
                return Err(ServiceError::BadToken(format!(
                    "the token `{name}` has expired, and so would its new text; revoke it, and create it again"
                )));
            }
            for old in &mut token.secrets {
                old.until = Some(old.until.map_or(until, |end| end.min(until)));
            }
            token.secrets.retain(|old| old.until.is_some_and(|end| end > now));
            token.secrets.push(secret.clone());
            Ok(token.clone())
        })
        .await?;
    Ok((record, text))
}

/// Ends a token for good. `configured` are names that the settings use.
pub async fn revoke(
    service: &Service,
    name: &str,
    configured: &[String],
) -> Result<(), ServiceError> {
    service
        .change_tokens(|tokens| {
            let before = tokens.len();
            tokens.retain(|token| token.name != name);
            if tokens.len() == before {
                return Err(not_on_record(name, configured));
            }
            Ok(())
        })
        .await
}

/// Why a token cannot be changed.
fn not_on_record(name: &str, configured: &[String]) -> ServiceError {
    if !configured.iter().any(|it| it == name) {
        return ServiceError::UnknownToken { name: name.to_owned() };
    }
    ServiceError::BadToken(format!(
        "the token `{name}` is in the settings, not in the store, so it can be neither rotated nor revoked here: \
         change it in the settings, and send SIGHUP to the instances or restart them"
    ))
}

/// A time as it is kept: nobody needs more than milliseconds of it.
fn in_millis(time: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time)
}

/// A name in a certificate as it is compared: DNS names in lower case, URIs and addresses as they are.
pub fn canonical(name: &str) -> String {
    if name.contains([':', '@']) { name.to_owned() } else { name.to_ascii_lowercase() }
}

/// Makes the text of a token, and what is kept of it.
pub fn new_secret() -> Result<(Zeroizing<String>, TokenSecret), ServiceError> {
    let text = secret_text::make().map_err(|error| {
        ServiceError::Broken(format!("the system gives no random bytes: {error}"))
    })?;
    let hash = secret_text::hash(text.as_bytes()).expect("it was just made");
    Ok((text, TokenSecret { sha256: hex::encode(hash), until: None }))
}
