//! Who may do what: tokens, rights and limits.
//!
//! Fronts ask [`Access::admit`] for every request; nothing of that waits or asks the store. `serve` keeps the
//! tokens up to date ([`Access::reread`]). Nothing here knows a protocol.
//!
//! # Invariants
//!
//! - Once a token existed, callers without one may do only what `anonymous_allow` says; also when all tokens
//!   are revoked, expired, or lost with the store.
//! - Tokens of the store that were not read for `tokens_max_age` admit nobody: they may have been revoked.

pub mod issue;
pub mod limits;
pub mod rights;
pub mod secret_text;
mod table;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use keymill_engine::operations::{
    KnownTokens, Service, ServiceError, TokenRecord, check_token_name,
};

use limits::{AddressLimits, Exceeded};
use rights::{Grants, Right};
use table::{Token, TokenTable};

/// What callers without a token are recorded as, once there are tokens. No token has this name.
const ANONYMOUS: &str = "anonymous";
/// How often unknown tokens may have the list read again.
const REREAD_EVERY: Duration = Duration::from_secs(1);
/// How long tokens are relied on while the store is unreachable, where nothing else is set.
pub const TOKENS_MAX_AGE: Duration = Duration::from_secs(3_600);

/// What decides who may do what, replaced while the server runs.
#[derive(Debug)]
pub struct Access {
    settings: ArcSwap<AccessSettings>,
    known: ArcSwap<Known>,
    /// Held while what is known is replaced: an older list must not take the place of a newer one.
    replacing: Mutex<()>,
    began: Instant,
    /// When the list was last read because of an unknown token, in milliseconds since `began`, and from 1.
    reread_at: AtomicU64,
}

/// What the settings say of it.
#[derive(Debug, Clone)]
pub struct AccessSettings {
    /// What callers without a token may do, once there are tokens.
    pub anonymous: Grants,
    /// Tokens of the settings.
    pub tokens: Vec<TokenRecord>,
    /// How long the tokens of the store are relied on while it is unreachable.
    pub tokens_max_age: Duration,
    /// Requests of callers without a token.
    pub address_limits: Option<Arc<AddressLimits>>,
}

/// The tokens as they were last read.
#[derive(Debug)]
struct Known {
    table: TokenTable,
    /// Those of the store.
    records: Vec<TokenRecord>,
    /// Whether a token exists or existed.
    is_on: bool,
    read_at: Instant,
    /// The revision of the store's list.
    revision: u64,
}

/// Who sends a request.
#[derive(Debug, Clone)]
pub struct Caller {
    token: Option<Arc<Token>>,
    /// Whether callers are told apart at all.
    is_on: bool,
}

/// Why a request is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// It needs a token.
    NoToken,
    /// What it has is not a token: mistyped or cut off.
    NotAToken,
    /// The token is unknown, expired or revoked.
    UnknownToken,
    /// The token does not allow it.
    NotAllowed,
    /// The list of tokens is too old to be relied on.
    Stale,
    /// Too much, or too often.
    Exceeded(Exceeded),
}

impl Access {
    /// Access by these settings, as long as nothing is known of the store's tokens.
    pub fn new(settings: AccessSettings) -> Access {
        let access = Access {
            settings: ArcSwap::from_pointee(settings),
            known: ArcSwap::from_pointee(Known {
                table: TokenTable::default(),
                records: Vec::new(),
                is_on: false,
                read_at: Instant::now(),
                revision: 0,
            }),
            replacing: Mutex::default(),
            began: Instant::now(),
            reread_at: AtomicU64::new(0),
        };
        access.update(Vec::new(), false, Instant::now(), 0);
        access
    }

    /// Whether callers need tokens.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.known.load().is_on
    }

    /// The names of the tokens that the settings have.
    pub fn configured_names(&self) -> Vec<String> {
        self.settings.load().tokens.iter().map(|token| token.name.clone()).collect()
    }

    /// Whether the store has a token of this name.
    pub fn is_on_record(&self, name: &str) -> bool {
        self.known.load().records.iter().any(|token| token.name == name)
    }

    /// Replaces the settings.
    pub fn set(&self, settings: AccessSettings) {
        let _replacing = self.replacing.lock().expect("nothing panics while it is held");
        self.settings.store(Arc::new(settings));
        let known = self.known.load();
        self.update(known.records.clone(), known.is_on, known.read_at, known.revision);
    }

    /// Takes in the tokens of the store.
    pub fn learn(&self, tokens: KnownTokens) {
        let _replacing = self.replacing.lock().expect("nothing panics while it is held");
        let known = self.known.load();
        if tokens.revision < known.revision && !tokens.rolled_back {
            // It was read before a change that is known already.
            return;
        }
        self.update(tokens.tokens, tokens.ever || known.is_on, Instant::now(), tokens.revision);
    }

    /// Reads the tokens of the store again.
    pub async fn reread(&self, service: &Service) -> Result<(), ServiceError> {
        self.learn(service.tokens().await?);
        Ok(())
    }

    /// The same because somebody came with an unknown one, which may just have been made elsewhere; whether
    /// it was done. At most once a second, so that a flood of wrong tokens does not become one of reads.
    pub async fn reread_for_unknown(&self, service: &Service) -> bool {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX) + 1;
        let last = self.reread_at.load(Ordering::Relaxed);
        let every = u64::try_from(REREAD_EVERY.as_millis()).unwrap_or(u64::MAX);
        let order = Ordering::Relaxed;
        if (last > 0 && now < last + every)
            || self.reread_at.compare_exchange(last, now, order, order).is_err()
        {
            return false;
        }
        self.reread(service).await.is_ok()
    }

    /// Who sends a request, if they may do what it asks for. Without tokens everybody may do everything.
    #[inline]
    pub fn admit(
        &self,
        bearer: Option<&[u8]>,
        certificate: &[String],
        need: Option<(Right, Option<&str>)>,
        address: impl Fn() -> Option<IpAddr>,
    ) -> Result<Caller, Denied> {
        let known = self.known.load();
        if !known.is_on {
            self.count_request(&address)?;
            return Ok(Caller { token: None, is_on: false });
        }
        let token = self.find(&known, bearer, certificate)?;
        let allows = |grants: &Grants| match need {
            Some((right, space)) => grants.allow(right, space),
            None => true,
        };
        match &token {
            Some(token) if allows(&token.grants) => {}
            Some(_) => return Err(Denied::NotAllowed),
            None => {
                let settings = self.settings.load();
                if settings.anonymous.is_empty() || !allows(&settings.anonymous) {
                    return Err(Denied::NoToken);
                }
                self.count_request(&address)?;
            }
        }
        Ok(Caller { token, is_on: true })
    }

    fn find(
        &self,
        known: &Known,
        bearer: Option<&[u8]>,
        certificate: &[String],
    ) -> Result<Option<Arc<Token>>, Denied> {
        let now = Timestamp::now();
        let token = match bearer {
            None if certificate.is_empty() => return Ok(None),
            None => known.table.find_certificate(certificate, now),
            Some(bearer) => {
                let hash = secret_text::hash(bearer).ok_or(Denied::NotAToken)?;
                Some(known.table.find(&hash, now).ok_or(Denied::UnknownToken)?)
            }
        };
        if token.is_some_and(|token| token.is_on_record)
            && known.read_at.elapsed() > self.settings.load().tokens_max_age
        {
            return Err(Denied::Stale);
        }
        Ok(token.cloned())
    }

    /// Counts a request of a caller without a token.
    fn count_request(&self, address: &impl Fn() -> Option<IpAddr>) -> Result<(), Denied> {
        let settings = self.settings.load();
        let Some(limits) = &settings.address_limits else { return Ok(()) };
        address().map_or(Ok(()), |address| limits.spend(address).map_err(Denied::Exceeded))
    }

    fn update(&self, records: Vec<TokenRecord>, is_on: bool, read_at: Instant, revision: u64) {
        let settings = self.settings.load();
        let before = self.known.load();
        let (table, problems) = TokenTable::new(&records, &settings.tokens, &before.table);
        for problem in problems {
            tracing::warn!("{problem}");
        }
        let is_on = is_on || !settings.tokens.is_empty();
        if is_on && !before.is_on {
            tracing::info!("callers need a token, except for what `anonymous_allow` lists");
        }
        self.known.store(Arc::new(Known { table, records, is_on, read_at, revision }));
    }
}

impl Caller {
    /// Somebody who needs no right for what they ask.
    pub fn nobody(is_on: bool) -> Caller {
        Caller { token: None, is_on }
    }

    /// The name that its acts are on record by: the token's, and below it what the caller says itself. Only
    /// those who may administer a keyspace act for others. Callers without a token share a name, so that they
    /// cannot pass for one that has.
    pub fn name<'a>(&self, said: &'a str, space: &str) -> Cow<'a, str> {
        match &self.token {
            None if !self.is_on => said.into(),
            None if said.is_empty() => ANONYMOUS.into(),
            None => format!("{ANONYMOUS}/{said}").into(),
            Some(token) if said.is_empty() => token.name.to_string().into(),
            Some(token) if token.grants.allow(Right::Admin, Some(space)) => said.into(),
            Some(token) => format!("{}/{said}", token.name).into(),
        }
    }

    /// The name of its token.
    pub fn token_name(&self) -> Option<&str> {
        self.token.as_ref().map(|token| &*token.name)
    }

    /// Whether it may do something. Without tokens everybody may do everything.
    pub fn may(&self, right: Right, space: Option<&str>) -> bool {
        match &self.token {
            Some(token) => token.grants.allow(right, space),
            None => !self.is_on,
        }
    }

    /// Counts keys that are about to be taken, or refuses them.
    #[inline]
    pub fn spend(&self, keys: u32) -> Result<(), Exceeded> {
        self.token.as_ref().map_or(Ok(()), |token| token.limits.spend(keys))
    }
}

/// Refuses what cannot be the name of a token.
pub fn check_name(name: &str) -> Result<(), ServiceError> {
    if name == ANONYMOUS {
        return Err(ServiceError::BadToken(format!(
            "`{ANONYMOUS}` cannot be the name of a token: callers without one are recorded by it"
        )));
    }
    check_token_name(name)
}

impl Default for AccessSettings {
    fn default() -> AccessSettings {
        AccessSettings {
            anonymous: Grants::default(),
            tokens: Vec::new(),
            tokens_max_age: TOKENS_MAX_AGE,
            address_limits: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_read_before_a_change_does_not_undo_it() {
        let access = Access::new(AccessSettings::default());
        assert!(!access.is_on());
        let list = |revision, names: &[&str], rolled_back| KnownTokens {
            revision,
            tokens: names.iter().map(|name| record(name)).collect(),
            ever: revision > 0,
            rolled_back,
        };
        access.learn(list(2, &["old", "new"], false));
        access.learn(list(3, &["new"], false));
        access.learn(list(2, &["old", "new"], false));
        assert!(!access.is_on_record("old") && access.is_on_record("new"), "revoked at 3");
        access.learn(list(1, &["old"], true));
        assert!(access.is_on_record("old"), "a store that was rolled back is what there is");
        access.set(AccessSettings::default());
        assert!(access.is_on() && access.is_on_record("old"));
    }

    fn record(name: &str) -> TokenRecord {
        TokenRecord {
            name: name.to_owned(),
            secrets: Vec::new(),
            allow: vec!["take:*".to_owned()],
            expires_at: None,
            rate: None,
            quota: None,
            certificate: None,
            created_at: Timestamp::now(),
            created_by: "test".to_owned(),
        }
    }
}
