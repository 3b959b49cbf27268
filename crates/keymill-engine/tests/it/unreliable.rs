//! A real SQLite store whose link a test has in its hands: requests are refused before they are
//! carried out, or carried out with their answers lost.
//!
//! Instances on it share no floor file, as if each ran on a machine of its own.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{
    Act, ActPage, Admin, AvailablePage, Beat, Claim, ClaimAsk, Claimed, Confirm, Confirmed,
    Created, DigestBatch, Digested, Digests, Fill, Filled, Finding, Floor, Found, GiveBack, Grant,
    InstancePage, InstanceRecord, Instances, KeyRef, KeyRows, LeaseAsk, LeasePage, LeaseRecord,
    Leases, Mark, MovedRow, MovedSpace, Moves, NameBatch, NamePage, NamePurpose, NameRecord, Named,
    Names, NewName, NewSpace, Noted, Opening, Pools, Pulse, Release, Retire, Rows, RowsPage,
    Snapshots, SpaceRecord, Spaces, Store, StoreDescription, StoreError, TokenChange, TokenList,
    Tokens, UseLog, UsedKey, UsedPage, Uses, Window, WindowAsk, WindowRelease, Windows,
};
use keymill_engine::space::{Definition, Tuning};

pub(crate) use crate::setup::setup;

/// A SQLite store behind a link that fails as a test says.
#[derive(Debug)]
pub(crate) struct Unreliable {
    inner: Store,
    away: AtomicBool,
    /// How many requests were refused because it is away.
    refused: AtomicU32,
    /// How many answers to leases and windows are lost from now on.
    to_lose: AtomicU32,
    notes: Mutex<Notes>,
    pause: Mutex<Option<Pause>>,
    /// What was asked for of leases and windows, and what was granted whether or not the answer
    /// arrived.
    asked: Mutex<Vec<(u64, u64)>>,
}

/// What becomes of notes of single keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Notes {
    /// They are carried out and answered.
    #[default]
    Answered,
    /// They are refused, and nothing is written.
    Refused,
    /// They are written, and the answer is lost.
    Lost,
}

/// What happens while an instance is paused.
struct Pause(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Unreliable {
    pub(crate) async fn open(folder: &Path) -> Arc<Unreliable> {
        let url = format!("sqlite:{}", folder.join("keymill.db").display());
        Arc::new(Unreliable {
            inner: keymill_engine::internals::store::open(&url, Opening::default()).await.unwrap(),
            away: AtomicBool::new(false),
            refused: AtomicU32::new(0),
            to_lose: AtomicU32::new(0),
            notes: Mutex::default(),
            pause: Mutex::default(),
            asked: Mutex::default(),
        })
    }

    /// The store as an instance has it, over this link.
    pub(crate) fn store(self: &Arc<Unreliable>) -> Store {
        Store::of(self).with_rows(self)
    }

    /// Refuses every request from now on, or none.
    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// Loses the answers to so many leases or windows.
    pub(crate) fn lose(&self, count: u32) {
        self.to_lose.store(count, Ordering::SeqCst);
    }

    pub(crate) fn set_notes(&self, notes: Notes) {
        *self.notes.lock().unwrap() = notes;
    }

    /// Pauses the instance behind the commit of its next change that keys leave because of, or that is told to
    /// somebody, before it hears of it, for as long as something else takes.
    pub(crate) fn pause_for(&self, meanwhile: impl Future<Output = ()> + Send + 'static) {
        *self.pause.lock().unwrap() = Some(Pause(Box::pin(meanwhile)));
    }

    /// What was asked for of leases and windows so far, and what was granted.
    pub(crate) fn asked(&self) -> Vec<(u64, u64)> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until a request was refused because it is away.
    pub(crate) async fn refuses_one(&self) {
        let before = self.refused.load(Ordering::SeqCst);
        while self.refused.load(Ordering::SeqCst) == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn up(&self) -> Result<&Store, StoreError> {
        if self.away.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(StoreError::Unavailable("the link is cut".to_owned()));
        }
        Ok(&self.inner)
    }

    fn rows(&self) -> Result<&KeyRows, StoreError> {
        Ok(self.up()?.rows.as_ref().expect("SQLite keeps rows of keys"))
    }

    /// Answers with what was committed, after the pause if there is to be one.
    async fn committed<T>(&self, answer: T) -> Result<T, StoreError> {
        let pause = self.pause.lock().unwrap().take();
        if let Some(Pause(meanwhile)) = pause {
            meanwhile.await;
        }
        Ok(answer)
    }

    /// Notes what was asked for and granted, and answers with it unless the answer is to be lost.
    fn answer<T>(&self, asked: u64, granted: u64, answer: T) -> Result<T, StoreError> {
        self.asked.lock().unwrap().push((asked, granted));
        let lose = |left: u32| left.checked_sub(1);
        match self.to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose) {
            Ok(_) => Err(StoreError::InDoubt("the answer was lost".to_owned())),
            Err(_) => Ok(answer),
        }
    }
}

impl fmt::Debug for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pause")
    }
}

#[async_trait]
impl Leases for Unreliable {
    async fn lease(&self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError> {
        let grant = self.up()?.leases.lease(ask, floor).await?;
        let granted = grant.ordinals.end - grant.ordinals.start;
        self.committed(self.answer(ask.size, granted, grant)?).await
    }

    async fn give_back(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        self.up()?.leases.give_back(backs).await
    }

    async fn lease_of(&self, s: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        self.up()?.leases.lease_of(s, ordinal).await
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        self.up()?.leases.leases(page).await
    }
}

#[async_trait]
impl Windows for Unreliable {
    async fn window(&self, ask: &WindowAsk, floor: &Floor) -> Result<Window, StoreError> {
        let window = self.up()?.windows.window(ask, floor).await?;
        let granted = window.ticks.end - window.ticks.start;
        self.committed(self.answer(ask.length, granted, window)?).await
    }

    async fn clock_ms(&self, own_ms: i64) -> Result<i64, StoreError> {
        self.up()?.windows.clock_ms(own_ms).await
    }

    async fn release_window(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        self.up()?.windows.release_window(release, floor).await
    }
}

#[async_trait]
impl UseLog for Unreliable {
    async fn note(&self, uses: &Uses, floor: &Floor) -> Result<Noted, StoreError> {
        let notes = *self.notes.lock().unwrap();
        if notes == Notes::Refused {
            return Err(StoreError::Unavailable("the note was refused".to_owned()));
        }
        let noted = self.rows()?.use_log.note(uses, floor).await?;
        if notes == Notes::Lost {
            return Err(StoreError::InDoubt("the answer was lost".to_owned()));
        }
        self.committed(noted).await
    }

    async fn retire(&self, retire: &Retire, floor: &Floor) -> Result<(Mark, UsedKey), StoreError> {
        self.committed(self.rows()?.use_log.retire(retire, floor).await?).await
    }

    async fn used_page(&self, page: &UsedPage) -> Result<Vec<UsedKey>, StoreError> {
        self.rows()?.use_log.used_page(page).await
    }
}

#[async_trait]
impl Spaces for Unreliable {
    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        self.up()?.spaces.create(new, floor).await
    }

    async fn tune(&self, s: &str, t: &Tuning, f: &Floor) -> Result<SpaceRecord, StoreError> {
        self.up()?.spaces.tune(s, t, f).await
    }

    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.up()?.spaces.grow(space, definition, capacity, floor).await
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        self.up()?.spaces.space(space).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        self.up()?.spaces.spaces().await
    }

    async fn advance(&self, s: &str, to: Mark, by: &Instance) -> Result<SpaceRecord, StoreError> {
        self.up()?.spaces.advance(s, to, by).await
    }

    async fn report_sighting(&self, s: &str, by: &str, seen: Mark) -> Result<(), StoreError> {
        self.up()?.spaces.report_sighting(s, by, seen).await
    }

    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        self.up()?.spaces.sighted(space).await
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        self.up()?.spaces.seal(space, floor).await
    }
}

#[async_trait]
impl Names for Unreliable {
    async fn add_names(&self, batch: &NameBatch, floor: &Floor) -> Result<Named, StoreError> {
        self.committed(self.up()?.names.add_names(batch, floor).await?).await
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        self.committed(self.up()?.names.remove_name(space, key, owner, floor).await?).await
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        self.up()?.names.named(space, name).await
    }

    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError> {
        self.up()?.names.names(page).await
    }

    fn names_max(&self, purpose: NamePurpose) -> usize {
        self.inner.names.names_max(purpose)
    }

    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError> {
        self.up()?.names.count_names(space).await
    }
}

#[async_trait]
impl Snapshots for Unreliable {
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        self.up()?.snapshots.confirm(what).await
    }

    async fn names_without_ordinal(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.up()?.snapshots.names_without_ordinal(space, reached, after, limit).await
    }
}

#[async_trait]
impl Moves for Unreliable {
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        self.up()?.moves.moved_rows(page).await
    }

    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError> {
        self.up()?.moves.begin_import(space).await
    }

    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        self.committed(self.up()?.moves.import_rows(space, importing, rows, floor).await?).await
    }

    async fn finish_import(
        &self,
        space: &MovedSpace,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.committed(self.up()?.moves.finish_import(space, floor).await?).await
    }
}

#[async_trait]
impl Instances for Unreliable {
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        self.up()?.instances.heartbeat(pulse).await
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        self.up()?.instances.instances(page).await
    }
}

#[async_trait]
impl Tokens for Unreliable {
    async fn tokens(&self, floor: &Floor) -> Result<TokenList, StoreError> {
        self.up()?.tokens.tokens(floor).await
    }

    async fn replace_tokens(
        &self,
        change: &TokenChange,
        floor: &Floor,
    ) -> Result<Option<Mark>, StoreError> {
        self.committed(self.up()?.tokens.replace_tokens(change, floor).await?).await
    }

    async fn record_act(&self, act: &Act) -> Result<(), StoreError> {
        self.up()?.tokens.record_act(act).await
    }

    async fn acts(&self, page: &ActPage) -> Result<Vec<Act>, StoreError> {
        self.up()?.tokens.acts(page).await
    }
}

#[async_trait]
impl Admin for Unreliable {
    async fn identity(&self) -> Result<String, StoreError> {
        self.up()?.admin.identity().await
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        self.up()?.admin.secret(candidate).await
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        self.up()?.admin.forget_secret().await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.up()?.admin.check().await
    }

    fn describe(&self) -> StoreDescription {
        self.inner.admin.describe()
    }
}

#[async_trait]
impl Pools for Unreliable {
    async fn fill(&self, fill: &Fill, floor: &Floor) -> Result<Filled, StoreError> {
        self.rows()?.pools.fill(fill, floor).await
    }

    async fn claim(&self, ask: &ClaimAsk, floor: &Floor) -> Result<Claim, StoreError> {
        self.committed(self.rows()?.pools.claim(ask, floor).await?).await
    }

    async fn release(&self, back: &Release, floor: &Floor) -> Result<Mark, StoreError> {
        self.rows()?.pools.release(back, floor).await
    }

    async fn available(&self, space: &str) -> Result<u64, StoreError> {
        self.rows()?.pools.available(space).await
    }

    async fn find(&self, at: &KeyRef) -> Result<Option<Found>, StoreError> {
        self.rows()?.pools.find(at).await
    }

    async fn imported(&self, space: &str, key: &str) -> Result<Option<KeyRef>, StoreError> {
        self.rows()?.pools.imported(space, key).await
    }

    async fn available_page(&self, page: &AvailablePage) -> Result<Vec<Claimed>, StoreError> {
        self.rows()?.pools.available_page(page).await
    }

    fn fill_max(&self) -> u64 {
        self.inner.rows.as_ref().expect("SQLite keeps rows of keys").pools.fill_max()
    }
}

#[async_trait]
impl Digests for Unreliable {
    async fn digest(&self, batch: &DigestBatch, floor: &Floor) -> Result<Digested, StoreError> {
        self.committed(self.rows()?.digests.digest(batch, floor).await?).await
    }
}
