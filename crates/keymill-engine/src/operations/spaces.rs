//! Making, showing, advancing, growing and ending spaces.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep};

use super::input::check_space;
use super::{Service, ServiceError};
use crate::space::{Audit, DefinitionError, Kind, SpaceSpec, Timeline, Tuning, check_name};
use crate::store::{Created, Lengths, Mark, NewSpace, SpaceRecord};

/// A space whose time is over within a year is not worth making.
const TIME_MIN_MS: i64 = 365 * 24 * 3_600 * 1_000;

/// How long a seal waits until this instance has given back what it holds, and how often it looks.
const SEAL_WAIT_MAX: Duration = Duration::from_millis(200);
const SEAL_LOOK_EVERY: Duration = Duration::from_millis(1);

/// What became of a wish for a space.
#[derive(Debug)]
pub struct Ensured {
    /// Whether it was made just now.
    pub made: bool,
    /// Whether settings of it were changed. Other instances follow with their next heartbeat.
    pub tuned: bool,
    /// The space.
    pub record: SpaceRecord,
}

/// A space in figures.
#[derive(Debug, Clone)]
pub struct SpaceReport {
    /// The space as the store has it.
    pub record: SpaceRecord,
    /// Granted to instances, and perhaps handed out.
    pub leased: u64,
    /// Names on record: aliases, keys in use elsewhere, digests.
    pub named: u64,
    /// Not yet granted.
    pub remaining: u64,
    /// In its pool, if it has one.
    pub available: Option<u64>,
    /// In this instance's memory, ready to be taken.
    pub at_hand: u64,
    /// The chance that a guess hits a key that may be in use.
    pub density: f64,
    /// Keys a second that this instance hands out at present.
    pub rate: f64,
    /// Keys a second that all instances leased, on average since the space was made.
    pub leased_rate: f64,
    /// When the space will be used up if it goes on like that.
    pub exhausted_at: Option<Timestamp>,
    /// When no ID can be made any more, in a snowflake space.
    pub runs_out_at: Option<Timestamp>,
}

impl Service {
    /// Makes a space, or finds it there already with the same definition.
    pub async fn ensure_space(
        &self,
        name: &str,
        wanted: &SpaceSpec,
    ) -> Result<Ensured, ServiceError> {
        check_name(name)?;
        let inner = &self.inner;
        match self.store().spaces.space(name).await.map_err(ServiceError::from) {
            Ok(record) => return self.existing(record, wanted).await,
            Err(ServiceError::UnknownSpace(_)) => {}
            Err(error) => return Err(error),
        }
        let new = self.new_space(name, wanted)?;
        if inner.require_existing {
            return Err(ServiceError::NotExisting(format!("the keyspace `{name}`")));
        }
        match inner.fence.create(&new).await? {
            Created::Made(record) => Ok(Ensured { made: true, tuned: false, record }),
            Created::Exists(record) => self.existing(record, wanted).await,
        }
    }

    /// A space as it would be made: everything that can be refused without asking the store is refused.
    pub(super) fn new_space(
        &self,
        name: &str,
        wanted: &SpaceSpec,
    ) -> Result<NewSpace, ServiceError> {
        let (definition, tuning) = (wanted.definition(), wanted.tuning_over(&Tuning::default()));
        tuning.check()?;
        definition.check()?;
        definition.check_spelling()?;
        definition.generations(name, self.master_for(name)?)?;
        let capacity = definition.capacity()?;
        let start = wanted.start.unwrap_or(0);
        if start > 0 && !definition.kind.counts() {
            return Err(bad_start(format!(
                "is not allowed with kind {}; to move such a keyspace, see docs/stores.md",
                definition.kind
            )));
        }
        if start > capacity {
            return Err(bad_start(format!("is {start}: the keyspace has only {capacity} keys")));
        }
        if let Some(timeline) = definition.timeline()? {
            check_time(timeline, self.inner.clock.now_ms())?;
        }
        self.check_store_can(definition.kind, &tuning)?;
        let fingerprint = definition.fingerprint(name, self.master_for(name)?);
        let name = name.to_owned();
        Ok(NewSpace { name, definition, tuning, fingerprint, capacity, start })
    }

    /// The names of all spaces.
    pub async fn space_names(&self) -> Result<Vec<String>, ServiceError> {
        let records = self.store().spaces.spaces().await?;
        Ok(records.into_iter().map(|record| record.name).collect())
    }

    /// All spaces in figures, by name.
    pub async fn reports(&self) -> Result<Vec<SpaceReport>, ServiceError> {
        let records = self.store().spaces.spaces().await?;
        self.reports_on(records).await
    }

    /// Spaces in figures, by name, after a given one.
    pub async fn reports_after(
        &self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<SpaceReport>, ServiceError> {
        let mut records = self.store().spaces.spaces().await?;
        records.retain(|record| after.is_none_or(|after| record.name.as_str() > after));
        records.truncate(limit as usize);
        self.reports_on(records).await
    }

    async fn reports_on(
        &self,
        records: Vec<SpaceRecord>,
    ) -> Result<Vec<SpaceReport>, ServiceError> {
        let mut reports = Vec::with_capacity(records.len());
        let named = self.store().names.count_names(None).await?;
        for record in records {
            let available = self.available_in(&record).await?;
            let named = named.get(&record.name).copied().unwrap_or(0);
            reports.push(self.report_on(record, available, named)?);
        }
        Ok(reports)
    }

    /// One space in figures.
    pub async fn report(&self, name: &str) -> Result<SpaceReport, ServiceError> {
        check_space(name)?;
        let record = self.store().spaces.space(name).await?;
        let available = self.available_in(&record).await?;
        let named = self.store().names.count_names(Some(name)).await?;
        self.report_on(record, available, named.get(name).copied().unwrap_or(0))
    }

    /// Appends a generation of longer keys, to which takes move on when the last one ends.
    pub async fn grow(&self, name: &str, length: u8) -> Result<SpaceRecord, ServiceError> {
        check_space(name)?;
        let inner = &self.inner;
        let seen = inner.fence.seen(name).await?;
        let before = self.store().spaces.space(name).await?;
        let is_digest = before.definition.kind == Kind::Digest;
        if let Some(&last) = seen.grown.list().last()
            && is_digest
            && length <= last
        {
            return Err(bad_setting(
                "length",
                format!("must be above {last}: `{name}` already had keys of that length"),
            ));
        }
        let definition = before.definition.grow(length)?;
        definition.generations(name, self.master_for(name)?)?;
        let capacity = definition.capacity()?;
        let rolled_back = !before.mark.has_reached(seen);
        let record = if rolled_back && is_digest {
            // Keys of the new length cannot have been given before: with it, the space goes on.
            let grown = Lengths::of(&definition.grown);
            let to = seen.max(Mark { grown, ..before.mark });
            inner.fence.advance(name, to).await?
        } else {
            inner.fence.grow(name, &definition, capacity).await?
        };
        self.update_space(record.clone());
        Ok(record)
    }

    /// Ends a space.
    pub async fn seal(&self, name: &str) -> Result<SpaceRecord, ServiceError> {
        check_space(name)?;
        let record = self.inner.fence.seal(name).await?;
        // This instance need not wait for its heartbeat: what it holds is given back at once.
        self.update_space(record.clone());
        let begin = Instant::now();
        let holds_keys = || self.known_space(name).is_some_and(|space| space.at_hand() > 0);
        while holds_keys() && begin.elapsed() < SEAL_WAIT_MAX {
            sleep(SEAL_LOOK_EVERY).await;
        }
        Ok(record)
    }

    /// Changes how a space is served; what `wanted` says of its keys is not looked at. No secret is
    /// needed for that.
    pub async fn tune(&self, name: &str, wanted: &SpaceSpec) -> Result<Ensured, ServiceError> {
        let record = self.store().spaces.space(name).await?;
        not_exported(&record)?;
        self.tuned(record, wanted).await
    }

    /// Refuses to change a space that was exported. The store is asked, because another instance may have done it.
    pub(super) async fn check_not_exported(&self, name: &str) -> Result<(), ServiceError> {
        not_exported(&self.store().spaces.space(name).await?)
    }

    async fn existing(
        &self,
        record: SpaceRecord,
        wanted: &SpaceSpec,
    ) -> Result<Ensured, ServiceError> {
        let differences =
            record.definition.differences(&wanted.definition_like(&record.definition));
        if !differences.is_empty() {
            return Err(ServiceError::DifferentDefinition { space: record.name, differences });
        }
        if let Some(start) = wanted.start.filter(|start| *start > record.mark.next) {
            let (name, next) = (&record.name, record.mark.next);
            return Err(bad_start(format!(
                "is {start}, but `{name}` already exists and is at {next}; run `keymill space \
                 advance {name} --to {start}` to move it on"
            )));
        }
        self.check_secret(&record)?;
        self.tuned(record, wanted).await
    }

    async fn tuned(
        &self,
        mut record: SpaceRecord,
        wanted: &SpaceSpec,
    ) -> Result<Ensured, ServiceError> {
        let tuning = wanted.tuning_over(&record.tuning);
        tuning.check()?;
        self.check_store_can(record.definition.kind, &tuning)?;
        let tuned = tuning != record.tuning;
        if tuned {
            record = self.inner.fence.tune(&record.name, &tuning).await?;
        }
        self.update_space(record.clone());
        Ok(Ensured { made: false, tuned, record })
    }

    /// Refuses what this store cannot do, with the reason.
    pub(super) fn check_store_can(&self, kind: Kind, tuning: &Tuning) -> Result<(), ServiceError> {
        let store = self.store().admin.describe().kind;
        let rows = self.store().rows.as_ref();
        let refuse = |setting, problem: String| {
            Err(ServiceError::BadDefinition(DefinitionError::Setting { setting, problem }))
        };
        if matches!(kind, Kind::Pooled | Kind::Digest) && rows.is_none() {
            return refuse(
                "kind",
                format!(
                    "`{kind}` keeps a row for every key, which {store} does not support: use \
                     SQLite, PostgreSQL, MySQL or Redis"
                ),
            );
        }
        if tuning.audit == Audit::Key && !rows.is_some_and(|rows| rows.use_log.notes_keys()) {
            return refuse(
                "audit",
                format!(
                    "`key` commits a row for every key, which {store} does not support: use \
                     SQLite, PostgreSQL or MySQL"
                ),
            );
        }
        if tuning.audit == Audit::Key && matches!(kind, Kind::Uuid | Kind::Digest) {
            return refuse("audit", format!("`key` is not available for kind {kind}"));
        }
        Ok(())
    }

    /// How many keys wait in the pool of a space that has one.
    pub(super) async fn available_in(
        &self,
        record: &SpaceRecord,
    ) -> Result<Option<u64>, ServiceError> {
        if record.definition.kind != Kind::Pooled {
            return Ok(None);
        }
        Ok(Some(self.key_rows(&record.name)?.pools.available(&record.name).await?))
    }

    fn report_on(
        &self,
        record: SpaceRecord,
        available: Option<u64>,
        named: u64,
    ) -> Result<SpaceReport, ServiceError> {
        let domain = record.definition.domain().map_err(DefinitionError::from)?;
        let leased = record.leased();
        let remaining = record.left();
        let (now, space) = (Timestamp::now(), self.known_space(&record.name));
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let density = leased.saturating_add(named) as f64 / domain as f64;
        let leased_rate = record.leased_rate(now);
        let runs_out_at = record.definition.timeline()?.map(Timeline::runs_out_at);
        // A time beyond the calendar is not forecast.
        let exhausted_at = record
            .seconds_left(now)
            .filter(|seconds| *seconds < 2e11)
            .and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok())
            .and_then(|time| now.checked_add(time).ok());
        Ok(SpaceReport {
            leased,
            named,
            remaining,
            available,
            at_hand: space.as_ref().map_or(0, |space| space.at_hand()),
            density,
            rate: space.as_ref().map_or(0.0, |space| space.progress().rate),
            leased_rate,
            exhausted_at,
            runs_out_at,
            record,
        })
    }
}

/// Refuses a time that has not begun, or is over soon.
fn check_time(timeline: Timeline, now_ms: i64) -> Result<(), ServiceError> {
    let problem = if timeline.epoch_ms > now_ms {
        "is in the future".to_owned()
    } else if timeline.runs_out_at().as_millisecond() < now_ms.saturating_add(TIME_MIN_MS) {
        let at = timeline.runs_out_at();
        format!(
            "is too long ago: timestamps would end at {at}; use a later epoch, or more bits for \
             the time"
        )
    } else {
        return Ok(());
    };
    Err(bad_setting("epoch", problem))
}

/// Refuses a space that was exported.
fn not_exported(record: &SpaceRecord) -> Result<(), ServiceError> {
    match &record.tuning.exported_for {
        None => Ok(()),
        Some(store) => {
            let (space, for_store) = (record.name.clone(), store.clone());
            Err(ServiceError::Exported { space, for_store })
        }
    }
}

pub(super) fn bad_setting(setting: &'static str, problem: String) -> ServiceError {
    ServiceError::BadDefinition(DefinitionError::Setting { setting, problem })
}

fn bad_start(problem: String) -> ServiceError {
    bad_setting("start", problem)
}
