//! Who sends a request: what they may do, how they are recorded, and what they have taken.
//!
//! [`Access::admit`](super::Access::admit) makes one for every request that goes on; fronts ask it the rest.

use std::borrow::Cow;
use std::sync::Arc;

use super::limits::{Exceeded, TokenLimits};
use super::rights::Right;
use super::table::Token;

/// What callers without a token are recorded as, once there are tokens. No token has this name.
pub(super) const ANONYMOUS: &str = "anonymous";

/// Who sends a request.
#[derive(Debug, Clone)]
pub struct Caller {
    pub(super) token: Option<Arc<Token>>,
    /// Whether callers are told apart at all.
    pub(super) is_on: bool,
}

/// Keys that were counted against the quota of a token. They come back to it when this is dropped, unless they
/// were taken.
#[derive(Debug)]
#[must_use = "dropped at once, the keys are not counted"]
pub struct Counted {
    /// Only where there is a quota: a rate counts attempts.
    limits: Option<Arc<TokenLimits>>,
    keys: u32,
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

    /// The same for a take that may still fail. With `is_spent`, they were counted already.
    pub fn count(&self, keys: u32, is_spent: bool) -> Result<Counted, Exceeded> {
        if !is_spent {
            self.spend(keys)?;
        }
        let limits = self.token.as_ref().map(|token| &token.limits);
        Ok(Counted { limits: limits.filter(|it| it.has_quota()).cloned(), keys })
    }
}

impl Counted {
    /// No keys.
    pub fn nothing() -> Counted {
        Counted { limits: None, keys: 0 }
    }

    /// So many of them were taken. The others come back.
    pub fn keep(mut self, taken: u32) {
        self.keys = self.keys.saturating_sub(taken);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.keys > 0
            && let Some(limits) = self.limits.take()
        {
            limits.give_back(self.keys);
        }
    }
}
