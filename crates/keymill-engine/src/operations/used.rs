//! Used keys: the record of every key, page by page, and the end of a key.

use keymill_core::Located;

use super::input::shown;
use super::source::Source;
use super::{Service, ServiceError, Space, State, check_caller};
use crate::space::Kind;
use crate::store::{Found, KeyRef, Purpose, Retire, UsedKey, UsedPage, key_id};

impl Service {
    /// Used keys by time.
    pub async fn used(&self, page: &UsedPage) -> Result<Vec<UsedKey>, ServiceError> {
        self.check_exists(&page.space).await?;
        check_caller(page.caller.as_deref().unwrap_or_default())?;
        // Nobody in particular is everybody.
        let caller = page.caller.clone().filter(|caller| !caller.is_empty());
        let page = UsedPage { caller, ..page.clone() };
        Ok(self.key_rows(&page.space)?.use_log.used_page(&page).await?)
    }

    /// Retires a key that was handed out: it never comes back.
    pub async fn retire(&self, name: &str, key: &str) -> Result<UsedKey, ServiceError> {
        let space = self.space(name).await?;
        self.key_rows(name)?;
        let explanation = self.explain(name, key).await?;
        let refuse = |problem: &str| {
            let (space, key) = (name.to_owned(), shown(key));
            ServiceError::NotRetirable { space, key, problem: problem.to_owned() }
        };
        if let Source::Digests(_) = space.source {
            return Err(refuse("it is the key of an input, which never changes"));
        }
        let used_at = match explanation.state {
            State::Issued | State::Leased | State::Retired => {
                let used_at = explanation.used.as_ref().map(|used| used.used_at);
                let leased_at = explanation.lease.as_ref().map(|lease| lease.granted_at);
                used_at.or(leased_at).unwrap_or(space.record().created_at)
            }
            _ => return Err(refuse(&explanation.reason)),
        };
        self.check_not_exported(name).await?;
        let canonical = explanation.key.unwrap_or_else(|| key.to_owned());
        let at = self.key_ref(&space, &canonical).await?;
        let at = at.ok_or_else(|| refuse("it is neither generated nor from a pool"))?;
        let instance = self.instance().id.clone();
        Ok(self.inner.fence.retire(&Retire { at, used_at, instance }).await?)
    }

    /// The row of a key, where it can have one.
    pub(super) async fn found(
        &self,
        space: &Space,
        key: &str,
    ) -> Result<Option<Found>, ServiceError> {
        let Some(rows) = &self.store().rows else { return Ok(None) };
        match self.key_ref(space, key).await? {
            Some(at) => Ok(rows.pools.find(&at).await?),
            None => Ok(None),
        }
    }

    /// Where the row of a key is: a key tells its ordinal, and in a pool the ordinal tells the fill
    /// that wrote it.
    pub(super) async fn key_ref(
        &self,
        space: &Space,
        key: &str,
    ) -> Result<Option<KeyRef>, ServiceError> {
        let store = self.store();
        let at = |id| KeyRef { space: space.name.clone(), id, key: key.to_owned() };
        let pooled = space.record().definition.kind == Kind::Pooled;
        if pooled
            && let Some(imported) =
                self.key_rows(&space.name)?.pools.imported(&space.name, key).await?
        {
            return Ok(Some(imported));
        }
        let Ok(Located::Ordinal(ordinal)) = space.generations().ordinal(key.as_bytes()) else {
            return Ok(None);
        };
        if !pooled {
            return Ok(Some(at(ordinal.cast_signed())));
        }
        let fill = store.leases.lease_of(&space.name, ordinal).await?;
        let fill =
            fill.filter(|fill| fill.purpose == Purpose::Fill && fill.ordinals.contains(&ordinal));
        Ok(fill.map(|fill| at(key_id(fill.lease, ordinal - fill.ordinals.start))))
    }
}
