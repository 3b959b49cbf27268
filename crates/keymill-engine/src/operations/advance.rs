//! Advancing: a space whose store was rolled back goes on beyond everything that may be in use.
//!
//! How far that is follows from what was seen: by this data directory, and by running instances, which wrote
//! it into the store when they found it below that. Where nothing was seen, only the user
//! knows, and says it by an ordinal, or by the keys in use.

use std::collections::HashMap;
use std::time::Duration;

use keymill_core::Located;

use super::input::check_space;
use super::spaces::bad_setting;
use super::{Service, ServiceError, Space};
use crate::space::{Kind, Timeline, Tuning};
use crate::store::{Confirm, Evidence, InstancePage, LeasePage, Mark, Purpose, SpaceRecord};

/// How far ahead a snowflake space may be advanced.
const ADVANCE_MAX: Duration = Duration::from_secs(2 * 3_600);
/// How many of the highest ordinals are remembered where nothing else is said: names on record among them do not
/// count.
const HIGHEST_MAX: usize = 10_000_000;
/// How many ordinals are looked up among the names at once.
const NAMES_AT_ONCE: usize = 1_000;
/// How many of the lines that are no keys are looked at for whether they would be longer ones.
const LONGER_MAX: u64 = 1_000;
/// How much of a line is looked at: no key is as long.
const LINE_LEN_MAX: usize = 300;
/// How many of the highest keys are shown.
const SHOWN: usize = 10;
const PAGE: u32 = 1_000;
/// What the keys in use are called, which are a file for some and a body for others.
const IN_USE: &str = "the keys in use";

/// What an advance is told.
#[derive(Debug, Default)]
pub struct AdvanceAsk {
    /// At least to this ordinal.
    pub to: Option<u64>,
    /// Beyond these keys.
    pub beyond: Option<HighestKeys>,
    /// Keys that are longer than any of the space are not its own.
    pub ignore_longer: bool,
    /// Of a digest space: every input that was digested since the backup will be digested again
    /// before any other.
    pub inputs_again: bool,
}

/// What an advance will do.
#[derive(Debug)]
pub struct AdvancePlan {
    /// The space as it is.
    pub before: SpaceRecord,
    /// Where it goes on.
    pub next: u64,
    /// The highest keys in use, the first of them the highest, and their ordinals.
    pub highest: Vec<(u64, String)>,
    /// Ordinals that are left out for leases that were in use: keys on their way are in no table.
    pub in_flight: u64,
    /// Keys that wait in the pool, and are dropped.
    pub pooled: Option<u64>,
    to: Mark,
}

/// The highest of keys that are in use, as they are read one by one.
#[derive(Debug)]
pub struct HighestKeys {
    space: std::sync::Arc<Space>,
    ordinals: Vec<u64>,
    /// How many of them are remembered.
    kept_max: usize,
    /// A line that has begun.
    begun: Vec<u8>,
    /// How many are keys of the space.
    pub counted: u64,
    /// How many are another region's.
    pub elsewhere: u64,
    /// How many cannot be keys of the space, as it is: of another length, or mistyped.
    pub other: u64,
    /// How many of the first of these would be keys of the space, if it had grown to their length.
    pub longer: u64,
}

impl HighestKeys {
    /// The same, but remembers no more than so many of the highest: a server has less memory for this than a
    /// command.
    #[must_use]
    pub fn keeping(mut self, kept_max: usize) -> HighestKeys {
        self.kept_max = kept_max.max(1);
        self
    }

    /// Takes in more bytes of a file of keys, one a line; blank lines do not count.
    pub fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // What is longer is no key, and is cut so that it stays none.
            let room = LINE_LEN_MAX.saturating_sub(self.begun.len());
            self.begun.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.finish();
            }
        }
    }

    /// Takes in the last line, which need not end in a newline.
    pub fn finish(&mut self) {
        let line = std::mem::take(&mut self.begun);
        // The first line may begin with a byte order mark.
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&line);
        // What is not UTF-8 becomes something that is no key.
        let line = String::from_utf8_lossy(line.trim_ascii());
        if !line.is_empty() {
            self.add(&line);
        }
    }

    /// Takes a key in.
    pub fn add(&mut self, key: &str) {
        match self.space.generations().ordinal(key.as_bytes()) {
            Ok(Located::Ordinal(ordinal)) => {
                self.counted += 1;
                self.ordinals.push(ordinal);
                if self.ordinals.len() >= 2 * self.kept_max {
                    self.cut();
                }
            }
            Ok(Located::Elsewhere { .. }) => self.elsewhere += 1,
            Ok(Located::Beyond) => self.other += 1,
            Err(_) => {
                self.other += 1;
                // Not of all: that takes a while for each.
                let looked_at = self.other <= LONGER_MAX;
                let is_longer = looked_at && self.space.located_later(key).is_some();
                self.longer += u64::from(is_longer);
            }
        }
    }

    /// Keeps the highest only, each once, the highest first.
    fn cut(&mut self) {
        self.ordinals.sort_unstable_by(|a, b| b.cmp(a));
        self.ordinals.dedup();
        self.ordinals.truncate(self.kept_max);
    }
}

impl Service {
    /// Collects keys in use, to go beyond them.
    pub async fn highest_keys(&self, name: &str) -> Result<HighestKeys, ServiceError> {
        let space = self.space(name).await?;
        if !matches!(
            space.record().definition.kind,
            Kind::Shuffled | Kind::Sequential | Kind::Pooled
        ) {
            return Err(ServiceError::WrongKind(format!(
                "keys of `{name}` are not numbered, so there is no highest key to go beyond"
            )));
        }
        Ok(HighestKeys {
            space,
            ordinals: Vec::new(),
            kept_max: HIGHEST_MAX,
            begun: Vec::new(),
            counted: 0,
            elsewhere: 0,
            other: 0,
            longer: 0,
        })
    }

    /// What an advance would do, or why it cannot be done.
    pub async fn plan_advance(
        &self,
        name: &str,
        ask: AdvanceAsk,
    ) -> Result<AdvancePlan, ServiceError> {
        check_space(name)?;
        let inner = &self.inner;
        let seen = inner.fence.seen(name).await?;
        let before = self.store().spaces.space(name).await?;
        if before.definition.kind == Kind::Digest && !ask.inputs_again {
            return Err(digests_may_be_lost(&before, seen));
        }
        if let Some(keys) = ask.beyond.as_ref().filter(|keys| keys.longer > 0 && !ask.ignore_longer)
        {
            return Err(longer_keys(name, keys.longer));
        }
        let (highest, in_flight) = match ask.beyond {
            Some(keys) => (self.highest_in_use(keys).await?, self.in_flight(name).await?),
            None => (Vec::new(), 0),
        };
        // A backup may be older than every lease.
        let in_flight = in_flight.max(2 * before.tuning.lease_size_min);
        let beyond = highest.first().map(|(ordinal, _)| ordinal + 1 + in_flight);
        // With the growths that were lost and are made again.
        let mut after = before.clone();
        after.advance(seen)?;
        if let Some(to) = ask.to.filter(|to| *to > after.capacity) {
            let problem = format!("is {to}: the keyspace ends at {}", after.capacity);
            return Err(bad_setting("`to`", problem));
        }
        let next = ask.to.unwrap_or(0).max(beyond.unwrap_or(0)).min(after.capacity);
        let mut to = Mark { next, ..Mark::default() }.max(seen);
        if let Some(timeline) = after.definition.timeline()? {
            let now_ms = self.store().windows.clock_ms(inner.clock.now_ms()).await?;
            // What was lost may include a longer window. Where nobody tells anything of what was lost,
            // the windows that may be in use are as long as they can be.
            let told =
                !before.mark.has_reached(seen) || ask.to.is_some_and(|to| to > before.mark.next);
            let window = if told { after.tuning.window() } else { Tuning::WINDOW_MAX };
            to.next = to.next.max(resume_tick(&after, timeline, now_ms, window, ask.to)?);
        } else if ask.to.is_none()
            && beyond.is_none()
            && !ask.inputs_again
            && before.mark.has_reached(seen)
        {
            return Err(nothing_seen(&before));
        }
        let next = before.mark.next.max(to.next).min(after.capacity);
        let pooled = self.available_in(&before).await?;
        Ok(AdvancePlan { before, next, highest, in_flight, pooled, to })
    }

    /// Moves a space on as planned.
    pub async fn advance(&self, plan: &AdvancePlan) -> Result<SpaceRecord, ServiceError> {
        let record = self.inner.fence.advance(&plan.before.name, plan.to).await?;
        self.update_space(record.clone());
        Ok(record)
    }

    /// The highest keys that no name occupies: a name may have any ordinal.
    async fn highest_in_use(
        &self,
        mut keys: HighestKeys,
    ) -> Result<Vec<(u64, String)>, ServiceError> {
        keys.cut();
        let (space, generations) = (&keys.space, keys.space.generations_now());
        let mut highest = Vec::new();
        for some in keys.ordinals.chunks(NAMES_AT_ONCE) {
            let (Some(first), Some(last)) = (some.first(), some.last()) else { break };
            let look = Confirm {
                space: space.name.clone(),
                // The store may lie below everything seen: that is why it is advanced.
                reached: Mark::default(),
                evidence: Evidence::Mark,
                skips_in: *last..first + 1,
            };
            let names = self.store().snapshots.confirm(&look).await?.skips;
            let in_use = some.iter().filter(|ordinal| names.binary_search(ordinal).is_err());
            let shown = |&ordinal: &u64| (ordinal, generations.key(ordinal).as_str().to_owned());
            highest.extend(in_use.map(shown).take(SHOWN - highest.len()));
            if highest.len() >= SHOWN {
                break;
            }
        }
        if highest.is_empty() {
            return Err(bad_setting(
                IN_USE,
                format!(
                    "include no generated key of `{}`; pass --to instead (`to` over HTTP)",
                    space.name
                ),
            ));
        }
        Ok(highest)
    }

    /// How many keys may be on their way to callers: the two largest leases of each instance that
    /// has not said goodbye, and of any at all.
    async fn in_flight(&self, name: &str) -> Result<u64, ServiceError> {
        let mut largest: HashMap<String, [u64; 2]> = HashMap::new();
        let mut page = LeasePage { space: Some(name.to_owned()), after: None, limit: PAGE };
        loop {
            let leases = self.store().leases.leases(&page).await?;
            let Some(last) = leases.last() else { break };
            page.after = Some((last.space.clone(), last.lease));
            for lease in leases.iter().filter(|it| it.purpose == Purpose::Lease) {
                let size = lease.ordinals.end - lease.ordinals.start;
                keep_largest(largest.entry(lease.holder.id.clone()).or_default(), size);
            }
        }
        let mut any = [0; 2];
        largest.values().flatten().for_each(|&size| keep_largest(&mut any, size));
        let mut instances = InstancePage { after: None, limit: PAGE };
        loop {
            let some = self.store().instances.instances(&instances).await?;
            let Some(last) = some.last() else { break };
            instances.after = Some(last.instance.id.clone());
            for it in some.iter().filter(|it| it.stopped_at.is_some()) {
                largest.remove(&it.instance.id);
            }
        }
        let held: u64 = largest.values().flatten().sum();
        Ok(held.max(any.iter().sum()))
    }
}

fn keep_largest(largest: &mut [u64; 2], size: u64) {
    if size > largest[0] {
        *largest = [size, largest[0]];
    } else if size > largest[1] {
        largest[1] = size;
    }
}

fn longer_keys(name: &str, count: u64) -> ServiceError {
    bad_setting(
        IN_USE,
        format!(
            "include {count} or more keys that are longer than any key of `{name}`, which may have \
             grown after the backup. If so, run `keymill space grow {name} --length N` first, with \
             the same lengths as before. If they are not keys of `{name}` but aliases, for \
             example, pass --ignore-longer (`ignore_longer=true` over HTTP)"
        ),
    )
}

fn nothing_seen(space: &SpaceRecord) -> ServiceError {
    let (name, next) = (&space.name, space.mark.next);
    ServiceError::WrongKind(match space.definition.kind {
        Kind::Uuid => format!("`{name}` needs no advance: UUIDs are not leased"),
        _ => format!(
            "nothing shows that keys of `{name}` were handed out from ordinal {next} on: neither \
             this data directory nor a running instance has seen any. If you are sure that none \
             were, you are done. If not, do not start an instance; pass --to ORDINAL (`to` over HTTP), \
             or the keys in use with --beyond-keys FILE (as the body over HTTP)"
        ),
    })
}

fn digests_may_be_lost(space: &SpaceRecord, seen: Mark) -> ServiceError {
    let seen = seen.grown.list().last().copied().unwrap_or_default();
    let (name, length) = (&space.name, space.definition.length_last().max(seen) + 1);
    ServiceError::WrongKind(format!(
        "`{name}` makes digests, and could assign keys that were assigned since the backup to \
         other inputs. Either run `keymill space grow {name} --length {length}`: known inputs keep \
         their keys, and new ones get longer keys, which were never assigned (if the keyspace may \
         have grown since the backup, use a length that it never had). Or digest every input since \
         the backup again before any other, then pass --inputs-again (`inputs_again=true` over HTTP)"
    ))
}

/// The tick from which on workers of an advanced space may be leased: no window that was granted
/// before reaches beyond it, seen or not, if none was longer than `window`. Where that lies far ahead
/// it has to be asked for, since there are no IDs until then.
fn resume_tick(
    space: &SpaceRecord,
    timeline: Timeline,
    now_ms: i64,
    window: Duration,
    asked: Option<u64>,
) -> Result<u64, ServiceError> {
    let (now, seen) = (timeline.tick_at(now_ms), space.mark.next);
    let far = now.saturating_add(timeline.ticks_in(ADVANCE_MAX));
    if let Some(to) = asked.filter(|to| *to > far.max(seen)) {
        let at = timeline.time_of(to);
        return Err(bad_setting("`to`", format!("is {at}: there would be no IDs until then")));
    }
    let held = timeline.ticks_in(window);
    let resume = now.saturating_add(held).saturating_add(1).max(seen).min(timeline.ticks());
    if resume > far && asked != Some(resume) {
        let at = timeline.time_of(resume);
        let problem = format!(
            "would have to be {resume}, which is {at}: a clock was that far ahead, and there would \
             be no IDs until then. Create a new keyspace, or pass `--to {resume}` (`to={resume}` over \
             HTTP)"
        );
        return Err(bad_setting("`to`", problem));
    }
    Ok(resume)
}
