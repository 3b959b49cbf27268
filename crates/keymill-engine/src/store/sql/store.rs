//! An SQL database as a store: each request is one job in one transaction of its driver.
//!
//! Which kind of transaction a request needs is decided here, and nothing else. A job may run on another
//! thread, and so owns what it was asked.

use std::collections::HashMap;
use std::path::PathBuf;

use async_trait::async_trait;

use super::driver::{Aim, Driver, Transaction};
use super::{
    confirm, digests, instances, leases, moves, names, pools, spaces, tokens, use_log, windows,
};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};
use crate::store::{
    Act, ActPage, Admin, AvailablePage, Beat, Claim, ClaimAsk, Claimed, Confirm, Confirmed,
    Created, DigestBatch, Digested, Digests, Evidence, Fill, Filled, Finding, Floor, Found,
    GiveBack, Grant, InstancePage, InstanceRecord, Instances, KeyRef, LeaseAsk, LeasePage,
    LeaseRecord, Leases, Mark, MovedRow, MovedSpace, Moves, NameBatch, NamePage, NameRecord, Named,
    Names, NewName, NewSpace, Noted, Pools, Pulse, Release, Retire, Rows, RowsPage, Snapshots,
    SpaceRecord, Spaces, StoreDescription, StoreError, TokenChange, TokenList, Tokens, UseLog,
    UsedKey, UsedPage, Uses, Window, WindowAsk, WindowRelease, Windows,
};

/// An SQL database as a store.
#[derive(Debug)]
pub(crate) struct SqlStore<D> {
    driver: D,
}

impl<D> SqlStore<D> {
    pub(super) fn new(driver: D) -> SqlStore<D> {
        SqlStore { driver }
    }
}

/// Runs a job in a transaction. It gets copies of the references that are named.
macro_rules! run {
    ($self:ident, $aim:ident, ($($owned:ident),*), |$tx:ident| $job:expr) => {{
        $(let $owned = ToOwned::to_owned($owned);)*
        $self.driver.run(Aim::$aim, move |$tx| Box::pin(async move { $job.await })).await
    }};
}

/// The same for what reads what a change has left on record. Where the store seems to lie below that
/// change, the answer over a new connection is what counts.
macro_rules! run_again {
    ($self:ident, ($($owned:ident),*), |$tx:ident| $job:expr) => {
        match run!($self, Look, ($($owned),*), |$tx| $job) {
            Err(StoreError::RolledBack(_)) if $self.driver.ask_again() => {
                run!($self, Look, ($($owned),*), |$tx| $job)
            }
            answer => answer,
        }
    };
}

#[async_trait]
impl<D: Driver> Spaces for SqlStore<D> {
    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        run!(self, Change, (new, floor), |tx| spaces::create(tx, &new, &floor))
    }

    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        run!(self, Change, (space, tuning, floor), |tx| spaces::tune(tx, &space, &tuning, &floor))
    }

    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        run!(self, Change, (space, definition, floor), |tx| {
            spaces::grow(tx, &space, &definition, capacity, &floor)
        })
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        run!(self, Look, (space), |tx| spaces::space(tx, &space))
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        run!(self, Look, (), |tx| spaces::spaces(tx))
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        run!(self, Change, (space, floor), |tx| spaces::seal(tx, &space, &floor))
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        run!(self, Change, (space, by), |tx| spaces::advance(tx, &space, to, &by))
    }

    async fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        run!(self, Change, (space, instance), |tx| {
            spaces::report_sighting(tx, &space, &instance, seen)
        })
    }

    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        run!(self, Look, (space), |tx| spaces::sighted(tx, &space))
    }
}

#[async_trait]
impl<D: Driver> Leases for SqlStore<D> {
    async fn lease(&self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError> {
        run!(self, Change, (ask, floor), |tx| leases::lease(tx, &ask, &floor))?
    }

    async fn give_back(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        run!(self, Change, (backs), |tx| leases::give_back(tx, &backs))
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        run!(self, List, (space), |tx| leases::lease_of(tx, &space, ordinal))
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        run!(self, List, (page), |tx| leases::leases(tx, &page))
    }
}

#[async_trait]
impl<D: Driver> Windows for SqlStore<D> {
    async fn window(&self, ask: &WindowAsk, floor: &Floor) -> Result<Window, StoreError> {
        run!(self, Change, (ask, floor), |tx| windows::window(tx, &ask, &floor))
    }

    async fn clock_ms(&self, own_ms: i64) -> Result<i64, StoreError> {
        self.driver.clock_ms(own_ms).await
    }

    async fn release_window(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        run!(self, Change, (release, floor), |tx| windows::release_window(tx, &release, &floor))
    }
}

#[async_trait]
impl<D: Driver> Names for SqlStore<D> {
    async fn add_names(&self, batch: &NameBatch, floor: &Floor) -> Result<Named, StoreError> {
        run!(self, Change, (batch, floor), |tx| names::add_names(tx, &batch, &floor))
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        run!(self, Change, (space, key, owner, floor), |tx| {
            names::remove_name(tx, &space, &key, &owner, &floor)
        })
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        run!(self, Look, (space, name), |tx| names::named(tx, &space, &name))
    }

    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError> {
        run!(self, List, (page), |tx| names::names(tx, &page))
    }

    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError> {
        let space = space.map(str::to_owned);
        run!(self, Look, (), |tx| names::count_names(tx, space.as_deref()))
    }
}

#[async_trait]
impl<D: Driver> Snapshots for SqlStore<D> {
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        run_again!(self, (what), |tx| confirm::confirm(tx, &what))
    }

    async fn names_without_ordinal(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let (space, after) = (space.to_owned(), after.unwrap_or_default());
        let what = &Confirm { space, reached, evidence: Evidence::Mark, skips_in: 0..0 };
        run_again!(self, (what, after), |tx| confirm::names_without_ordinal(
            tx, &what, &after, limit
        ))
    }
}

#[async_trait]
impl<D: Driver> Moves for SqlStore<D> {
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        run!(self, Look, (page), |tx| moves::moved_rows(tx, &page))
    }

    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError> {
        run!(self, Change, (space), |tx| moves::begin_import(tx, &space))
    }

    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        run!(self, Change, (space, importing, rows, floor), |tx| {
            moves::import_rows(tx, &space, &importing, &rows, &floor)
        })
    }

    async fn finish_import(
        &self,
        space: &MovedSpace,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        run!(self, Change, (space, floor), |tx| moves::finish_import(tx, &space, &floor))
    }
}

#[async_trait]
impl<D: Driver> Instances for SqlStore<D> {
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        run!(self, Change, (pulse), |tx| instances::heartbeat(tx, &pulse))
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        run!(self, List, (page), |tx| instances::instances(tx, &page))
    }
}

#[async_trait]
impl<D: Driver> Tokens for SqlStore<D> {
    async fn tokens(&self, floor: &Floor) -> Result<TokenList, StoreError> {
        run_again!(self, (floor), |tx| tokens::tokens(tx, &floor))
    }

    async fn replace_tokens(
        &self,
        change: &TokenChange,
        floor: &Floor,
    ) -> Result<Option<Mark>, StoreError> {
        run!(self, Change, (change, floor), |tx| tokens::replace_tokens(tx, &change, &floor))
    }

    async fn record_act(&self, act: &Act) -> Result<(), StoreError> {
        run!(self, Change, (act), |tx| tokens::record_act(tx, &act))
    }

    async fn acts(&self, page: &ActPage) -> Result<Vec<Act>, StoreError> {
        run!(self, List, (page), |tx| tokens::acts(tx, &page))
    }
}

#[async_trait]
impl<D: Driver> Pools for SqlStore<D> {
    async fn fill(&self, fill: &Fill, floor: &Floor) -> Result<Filled, StoreError> {
        run!(self, Change, (fill, floor), |tx| pools::fill(tx, &fill, &floor))
    }

    async fn claim(&self, ask: &ClaimAsk, floor: &Floor) -> Result<Claim, StoreError> {
        run!(self, Change, (ask, floor), |tx| pools::claim(tx, &ask, &floor))
    }

    async fn release(&self, back: &Release, floor: &Floor) -> Result<Mark, StoreError> {
        run!(self, Change, (back, floor), |tx| pools::release(tx, &back, &floor))
    }

    async fn available(&self, space: &str) -> Result<u64, StoreError> {
        run!(self, List, (space), |tx| pools::available(tx, &space))
    }

    async fn find(&self, at: &KeyRef) -> Result<Option<Found>, StoreError> {
        run!(self, Look, (at), |tx| pools::find(tx, &at))
    }

    async fn imported(&self, space: &str, key: &str) -> Result<Option<KeyRef>, StoreError> {
        run!(self, List, (space, key), |tx| pools::imported(tx, &space, &key))
    }

    async fn available_page(&self, page: &AvailablePage) -> Result<Vec<Claimed>, StoreError> {
        run!(self, Look, (page), |tx| pools::available_page(tx, &page))
    }

    fn fill_max(&self) -> u64 {
        D::FILL_MAX
    }
}

#[async_trait]
impl<D: Driver> UseLog for SqlStore<D> {
    async fn note(&self, uses: &Uses, floor: &Floor) -> Result<Noted, StoreError> {
        run!(self, Change, (uses, floor), |tx| use_log::note(tx, &uses, &floor))
    }

    async fn retire(&self, retire: &Retire, floor: &Floor) -> Result<(Mark, UsedKey), StoreError> {
        run!(self, Change, (retire, floor), |tx| use_log::retire(tx, &retire, &floor))
    }

    async fn used_page(&self, page: &UsedPage) -> Result<Vec<UsedKey>, StoreError> {
        run!(self, List, (page), |tx| use_log::used_page(tx, &page))
    }
}

#[async_trait]
impl<D: Driver> Digests for SqlStore<D> {
    async fn digest(&self, batch: &DigestBatch, floor: &Floor) -> Result<Digested, StoreError> {
        run!(self, Change, (batch, floor), |tx| digests::digest(tx, &batch, &floor))
    }
}

#[async_trait]
impl<D: Driver> Admin for SqlStore<D> {
    async fn identity(&self) -> Result<String, StoreError> {
        run!(self, Look, (), |tx| tx.identity())
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        let candidate = candidate.map(str::to_owned);
        run!(self, Change, (), |tx| instances::secret(tx, candidate.as_deref()))
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        run!(self, Change, (), |tx| instances::forget_secret(tx))
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.driver.check().await
    }

    async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        self.driver.migrate().await
    }

    fn describe(&self) -> StoreDescription {
        self.driver.describe()
    }

    fn floor_file(&self) -> Option<PathBuf> {
        self.driver.floor_file()
    }
}
