//! An SQL database as a store: each request is one job in one transaction of its driver.
//!
//! Which kind of transaction a request needs is decided here, and nothing else. A job may run on another
//! thread, and so owns what it was asked.

use std::collections::HashMap;
use std::path::PathBuf;

use async_trait::async_trait;

use super::driver::{Aim, Driver, Transaction};
use super::{confirm, digests, instances, leases, moves, names, pools, spaces, use_log, windows};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};
use crate::store::{
    Admin, AvailablePage, Beat, Claim, ClaimAsk, Claimed, Confirm, Confirmed, Created, DigestBatch,
    Digested, Digests, Evidence, Fill, Filled, Finding, Floor, Found, GiveBack, Grant,
    InstancePage, InstanceRecord, Instances, KeyPlace, LeaseAsk, LeasePage, LeaseRecord, Leases,
    Mark, MovedRow, MovedSpace, Moves, NameBatch, NamePage, NameRecord, Named, Names, NewName,
    NewSpace, Noted, Place, Pools, Pulse, Release, Retire, Rows, RowsPage, Snapshots, SpaceRecord,
    Spaces, StoreError, UseLog, UsedKey, UsedPage, Uses, Window, WindowAsk, WindowRelease, Windows,
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

/// Runs a job in a transaction.
macro_rules! run {
    ($self:ident, $aim:ident, |$tx:ident| $job:expr) => {
        $self.driver.run(Aim::$aim, move |$tx| Box::pin(async move { $job.await })).await
    };
}

/// The same for what reads what a change has left on record. Where the store seems to lie below that
/// change, the answer over a new connection is what counts.
macro_rules! run_again {
    ($self:ident, ($($owned:ident),*), |$tx:ident| $job:expr) => {{
        let answer = {
            $(let $owned = $owned.clone();)*
            run!($self, Look, |$tx| $job)
        };
        match answer {
            Err(StoreError::RolledBack(_)) if $self.driver.ask_again() => {
                run!($self, Look, |$tx| $job)
            }
            answer => answer,
        }
    }};
}

#[async_trait]
impl<D: Driver> Spaces for SqlStore<D> {
    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        let (new, floor) = (new.clone(), floor.clone());
        run!(self, Change, |tx| spaces::create(tx, &new, &floor))
    }

    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let (space, tuning, floor) = (space.to_owned(), tuning.clone(), floor.clone());
        run!(self, Change, |tx| spaces::tune(tx, &space, &tuning, &floor))
    }

    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let (space, definition, floor) = (space.to_owned(), definition.clone(), floor.clone());
        run!(self, Change, |tx| spaces::grow(tx, &space, &definition, capacity, &floor))
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        let space = space.to_owned();
        run!(self, Look, |tx| spaces::space(tx, &space))
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        run!(self, Look, |tx| spaces::spaces(tx))
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let (space, floor) = (space.to_owned(), floor.clone());
        run!(self, Change, |tx| spaces::seal(tx, &space, &floor))
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        let (space, by) = (space.to_owned(), by.clone());
        run!(self, Change, |tx| spaces::advance(tx, &space, to, &by))
    }

    async fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        let (space, instance) = (space.to_owned(), instance.to_owned());
        run!(self, Change, |tx| spaces::report_sighting(tx, &space, &instance, seen))
    }

    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        let space = space.to_owned();
        run!(self, Look, |tx| spaces::sighted(tx, &space))
    }
}

#[async_trait]
impl<D: Driver> Leases for SqlStore<D> {
    async fn lease(&self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError> {
        let (ask, floor) = (ask.clone(), floor.clone());
        run!(self, Change, |tx| leases::lease(tx, &ask, &floor))?
    }

    async fn give_back(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        let backs = backs.to_vec();
        run!(self, Change, |tx| leases::give_back(tx, &backs))
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        let space = space.to_owned();
        run!(self, List, |tx| leases::lease_of(tx, &space, ordinal))
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        let page = page.clone();
        run!(self, List, |tx| leases::leases(tx, &page))
    }
}

#[async_trait]
impl<D: Driver> Windows for SqlStore<D> {
    async fn window(&self, ask: &WindowAsk, floor: &Floor) -> Result<Window, StoreError> {
        let (ask, floor) = (ask.clone(), floor.clone());
        run!(self, Change, |tx| windows::window(tx, &ask, &floor))
    }

    async fn clock_ms(&self, own_ms: i64) -> Result<i64, StoreError> {
        self.driver.clock_ms(own_ms).await
    }

    async fn release_window(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        let (release, floor) = (release.clone(), floor.clone());
        run!(self, Change, |tx| windows::release_window(tx, &release, &floor))
    }
}

#[async_trait]
impl<D: Driver> Names for SqlStore<D> {
    async fn add_names(&self, batch: &NameBatch, floor: &Floor) -> Result<Named, StoreError> {
        let (batch, floor) = (batch.clone(), floor.clone());
        run!(self, Change, |tx| names::add_names(tx, &batch, &floor))
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        let (space, key) = (space.to_owned(), key.to_owned());
        let (owner, floor) = (owner.to_owned(), floor.clone());
        run!(self, Change, |tx| names::remove_name(tx, &space, &key, &owner, &floor))
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        let (space, name) = (space.to_owned(), name.clone());
        run!(self, Look, |tx| names::named(tx, &space, &name))
    }

    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError> {
        let page = page.clone();
        run!(self, List, |tx| names::names(tx, &page))
    }

    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError> {
        let space = space.map(str::to_owned);
        run!(self, Look, |tx| names::count_names(tx, space.as_deref()))
    }
}

#[async_trait]
impl<D: Driver> Snapshots for SqlStore<D> {
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        let what = what.clone();
        run_again!(self, (what), |tx| confirm::confirm(tx, &what))
    }

    async fn unplaced(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let (space, after) = (space.to_owned(), after.unwrap_or_default().to_owned());
        let what = Confirm { space, reached, evidence: Evidence::Mark, skips_in: 0..0 };
        run_again!(self, (what, after), |tx| confirm::unplaced(tx, &what, &after, limit))
    }
}

#[async_trait]
impl<D: Driver> Moves for SqlStore<D> {
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        let page = page.clone();
        run!(self, Look, |tx| moves::moved_rows(tx, &page))
    }

    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError> {
        let space = space.clone();
        run!(self, Change, |tx| moves::begin_import(tx, &space))
    }

    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        let (space, importing, rows) = (space.to_owned(), importing.to_owned(), rows.to_vec());
        run!(self, Change, |tx| moves::import_rows(tx, &space, &importing, &rows))
    }

    async fn finish_import(&self, space: &MovedSpace) -> Result<SpaceRecord, StoreError> {
        let space = space.clone();
        run!(self, Change, |tx| moves::finish_import(tx, &space))
    }
}

#[async_trait]
impl<D: Driver> Instances for SqlStore<D> {
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let pulse = pulse.clone();
        run!(self, Change, |tx| instances::heartbeat(tx, &pulse))
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        let page = page.clone();
        run!(self, List, |tx| instances::instances(tx, &page))
    }
}

#[async_trait]
impl<D: Driver> Pools for SqlStore<D> {
    async fn fill(&self, fill: &Fill, floor: &Floor) -> Result<Filled, StoreError> {
        let (fill, floor) = (fill.clone(), floor.clone());
        run!(self, Change, |tx| pools::fill(tx, &fill, &floor))
    }

    async fn claim(&self, ask: &ClaimAsk, floor: &Floor) -> Result<Claim, StoreError> {
        let (ask, floor) = (ask.clone(), floor.clone());
        run!(self, Change, |tx| pools::claim(tx, &ask, &floor))
    }

    async fn release(&self, back: &Release, floor: &Floor) -> Result<Mark, StoreError> {
        let (back, floor) = (back.clone(), floor.clone());
        run!(self, Change, |tx| pools::release(tx, &back, &floor))
    }

    async fn available(&self, space: &str) -> Result<u64, StoreError> {
        let space = space.to_owned();
        run!(self, List, |tx| pools::available(tx, &space))
    }

    async fn find(&self, at: &KeyPlace) -> Result<Option<Found>, StoreError> {
        let at = at.clone();
        run!(self, Look, |tx| pools::find(tx, &at))
    }

    async fn imported(&self, space: &str, key: &str) -> Result<Option<KeyPlace>, StoreError> {
        let (space, key) = (space.to_owned(), key.to_owned());
        run!(self, List, |tx| pools::imported(tx, &space, &key))
    }

    async fn available_page(&self, page: &AvailablePage) -> Result<Vec<Claimed>, StoreError> {
        let page = page.clone();
        run!(self, Look, |tx| pools::available_page(tx, &page))
    }

    fn fill_max(&self) -> u64 {
        D::FILL_MAX
    }
}

#[async_trait]
impl<D: Driver> UseLog for SqlStore<D> {
    async fn note(&self, uses: &Uses, floor: &Floor) -> Result<Noted, StoreError> {
        let (uses, floor) = (uses.clone(), floor.clone());
        run!(self, Change, |tx| use_log::note(tx, &uses, &floor))
    }

    async fn retire(&self, retire: &Retire, floor: &Floor) -> Result<(Mark, UsedKey), StoreError> {
        let (retire, floor) = (retire.clone(), floor.clone());
        run!(self, Change, |tx| use_log::retire(tx, &retire, &floor))
    }

    async fn used_page(&self, page: &UsedPage) -> Result<Vec<UsedKey>, StoreError> {
        let page = page.clone();
        run!(self, List, |tx| use_log::used_page(tx, &page))
    }
}

#[async_trait]
impl<D: Driver> Digests for SqlStore<D> {
    async fn digest(&self, batch: &DigestBatch, floor: &Floor) -> Result<Digested, StoreError> {
        let (batch, floor) = (batch.clone(), floor.clone());
        run!(self, Change, |tx| digests::digest(tx, &batch, &floor))
    }
}

#[async_trait]
impl<D: Driver> Admin for SqlStore<D> {
    async fn identity(&self) -> Result<String, StoreError> {
        run!(self, Look, |tx| tx.identity())
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        let candidate = candidate.map(str::to_owned);
        run!(self, Change, |tx| instances::secret(tx, candidate.as_deref()))
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        run!(self, Change, |tx| instances::forget_secret(tx))
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.driver.check().await
    }

    async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        self.driver.migrate().await
    }

    fn place(&self) -> Place {
        self.driver.place()
    }

    fn floor_file(&self) -> Option<PathBuf> {
        self.driver.floor_file()
    }
}
