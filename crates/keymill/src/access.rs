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

mod caller;
pub mod issue;
pub mod limits;
pub mod listed;
pub mod rights;
pub mod secret_text;
pub mod session;
mod table;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use keymill_engine::operations::{
    KnownTokens, Service, ServiceError, TokenRecord, check_token_name,
};

use caller::ANONYMOUS;
pub use caller::{Caller, Counted};
use limits::{AddressLimits, Exceeded};
use rights::{Grants, Right};
use secret_text::TokenHash;
use table::{Token, TokenTable};

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
    /// Held while it is read for that reason.
    rereading: tokio::sync::Mutex<()>,
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

/// Who may do what, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessSummary {
    /// Whether callers need tokens.
    pub is_on: bool,
    /// How many tokens are valid.
    pub tokens: usize,
    /// What callers without one may do.
    pub anonymous: Vec<String>,
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
            rereading: tokio::sync::Mutex::default(),
        };
        access.update(Vec::new(), false, Instant::now(), 0);
        access
    }

    /// Whether callers need tokens.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.known.load().is_on
    }

    /// The tokens that the settings have.
    pub fn configured(&self) -> Vec<TokenRecord> {
        self.settings.load().tokens.clone()
    }

    /// Their names.
    pub fn configured_names(&self) -> Vec<String> {
        self.settings.load().tokens.iter().map(|token| token.name.clone()).collect()
    }

    /// Whether the store has a token of this name.
    pub fn is_on_record(&self, name: &str) -> bool {
        self.known.load().records.iter().any(|token| token.name == name)
    }

    /// What they are, in a few words.
    pub fn summary(&self) -> AccessSummary {
        let (known, settings) = (self.known.load(), self.settings.load());
        let now = Timestamp::now();
        let tokens = known.records.iter().chain(&settings.tokens);
        let lives = |token: &&TokenRecord| token.expires_at.is_none_or(|end| now < end);
        AccessSummary {
            is_on: known.is_on,
            tokens: tokens.filter(lives).count(),
            anonymous: settings.anonymous.texts(),
        }
    }

    /// Replaces the settings. Limits that are unchanged go on counting.
    pub fn set(&self, mut settings: AccessSettings) {
        let _replacing = self.replacing.lock().expect("nothing panics while it is held");
        let before = self.settings.load().address_limits.clone();
        let rate = |limits: &Option<Arc<AddressLimits>>| limits.as_ref().map(|it| it.rate());
        if rate(&before) == rate(&settings.address_limits) {
            settings.address_limits = before;
        }
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
    /// it was done. At most once a second, so that a flood of wrong tokens does not become one of reads. Those who
    /// come while it is being read wait for that: a page asks for many things at once.
    pub async fn reread_for_unknown(&self, service: &Service) -> bool {
        let Ok(_rereading) = self.rereading.try_lock() else {
            drop(self.rereading.lock().await);
            return true;
        };
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX) + 1;
        let last = self.reread_at.load(Ordering::Relaxed);
        let every = u64::try_from(REREAD_EVERY.as_millis()).unwrap_or(u64::MAX);
        if last > 0 && now < last + every {
            return false;
        }
        self.reread_at.store(now, Ordering::Relaxed);
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
        let caller = if known.is_on {
            let hash = |text| secret_text::hash_unchecked(text).ok_or(Denied::NotAToken);
            let hash = bearer.map(hash).transpose()?;
            let token = self.find(&known, hash.as_ref(), certificate);
            let is_mistyped = || bearer.is_some_and(|text| !secret_text::is_checked(text));
            let token = token.map_err(|denied| match denied {
                Denied::UnknownToken if is_mistyped() => Denied::NotAToken,
                denied => denied,
            });
            Caller { token: token?, is_on: true }
        } else {
            Caller::nobody(false)
        };
        self.allow(&caller, need, address)?;
        Ok(caller)
    }

    /// Who is at the other end of a connection that shows its token once, by the hash of that. It is asked again
    /// for what comes later, because a token may be revoked or expire. What the caller may do is for
    /// [`Access::allow`].
    pub fn recognize(
        &self,
        hash: Option<&TokenHash>,
        certificate: &[String],
    ) -> Result<Caller, Denied> {
        let known = self.known.load();
        if !known.is_on {
            return Ok(Caller::nobody(false));
        }
        Ok(Caller { token: self.find(&known, hash, certificate)?, is_on: true })
    }

    /// Refuses what a caller may not do. A request of one that has no token is counted by its address.
    #[inline]
    pub fn allow(
        &self,
        caller: &Caller,
        need: Option<(Right, Option<&str>)>,
        address: impl Fn() -> Option<IpAddr>,
    ) -> Result<(), Denied> {
        let allows = |grants: &Grants| match need {
            Some((right, space)) => grants.allow(right, space),
            None => true,
        };
        match &caller.token {
            Some(token) if allows(&token.grants) => return Ok(()),
            Some(_) => return Err(Denied::NotAllowed),
            None if caller.is_on => {
                let settings = self.settings.load();
                if settings.anonymous.is_empty() || !allows(&settings.anonymous) {
                    return Err(Denied::NoToken);
                }
            }
            None => {}
        }
        self.count_request(&address)
    }

    /// When the text of a token ends, as far as that is known; `None` where it does not.
    pub fn end_of(&self, hash: &TokenHash) -> Option<Timestamp> {
        self.known.load().table.end_of(hash)
    }

    /// What a caller may do, as users write it.
    pub fn allowed(&self, caller: &Caller) -> Vec<String> {
        match &caller.token {
            Some(token) => token.grants.texts(),
            None if caller.is_on => self.settings.load().anonymous.texts(),
            None => Grants::all().texts(),
        }
    }

    fn find(
        &self,
        known: &Known,
        hash: Option<&TokenHash>,
        certificate: &[String],
    ) -> Result<Option<Arc<Token>>, Denied> {
        let now = Timestamp::now();
        let token = match hash {
            None if certificate.is_empty() => return Ok(None),
            None => known.table.find_certificate(certificate, now),
            Some(hash) => Some(known.table.find(hash, now).ok_or(Denied::UnknownToken)?),
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

/// Refuses what cannot be the name of a token.
pub fn check_name(name: &str) -> Result<(), ServiceError> {
    // As a part of a path, clients would resolve these before they send them.
    if matches!(name, "." | "..") {
        return Err(ServiceError::BadToken(format!(
            "`{name}` cannot be the name of a token: it would not arrive as part of a URL"
        )));
    }
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
mod tests;
