//! Health: what this instance knows to be wrong, for readiness, metrics and people.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;

use super::Service;
use super::tokens::ROLLED_BACK;
use crate::source::outlook::Outlook;
use crate::space::RolledBack;

/// Whether this instance can serve, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Whether every keyspace that was asked for can be served right now.
    pub ready: bool,
    /// Current problems, including those that do not prevent the instance from serving.
    pub problems: Vec<Problem>,
}

/// A problem of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Stable, for programs: `store_unavailable`, `store_rolled_back`, `exhausted`, …
    pub code: &'static str,
    /// The keyspace concerned, if it is a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// A description for people.
    pub detail: String,
}

/// What the heartbeat has noticed.
#[derive(Debug, Default)]
pub(super) struct Watch {
    noticed: Mutex<Noticed>,
}

#[derive(Debug, Default)]
struct Noticed {
    /// Heartbeats that the store has answered, and that it has not.
    beats: [u64; 2],
    /// When it answered the last.
    last_beat: Option<Instant>,
    store_error: bool,
    tokens_rolled_back: bool,
    rolled_back: BTreeMap<String, Rollback>,
}

/// A space that was found below what was seen of it.
#[derive(Debug)]
struct Rollback {
    how: Arc<RolledBack>,
    /// When this instance last wrote down what it has seen.
    reported_at: Option<Instant>,
}

/// How often that is written down again: the store may have been rolled back once more. Of spaces
/// that this instance serves, it is with every heartbeat.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Anybody may ask for this instance's health, so what the store said is only in the log.
const UNREACHABLE: &str = "the store is unreachable; the log of this instance says why";
const UNSAFE: &str = "the store is not safe to lease from, and is used because that was allowed; the log of \
                      this instance and `keymill store check` say why";

impl Watch {
    /// Counts a heartbeat.
    pub(super) fn note_beat(&self, is_answered: bool) {
        let mut noticed = self.noticed();
        noticed.beats[usize::from(!is_answered)] += 1;
        if is_answered {
            noticed.last_beat = Some(Instant::now());
        }
    }

    /// How many heartbeats were answered and how many not, and when the last one was.
    pub(super) fn beats(&self) -> (u64, u64, Option<Instant>) {
        let noticed = self.noticed();
        (noticed.beats[0], noticed.beats[1], noticed.last_beat)
    }

    pub(super) fn store_answered(&self) {
        if std::mem::take(&mut self.noticed().store_error) {
            tracing::info!("the store is reachable again");
        }
    }

    /// Returns whether this is news.
    pub(super) fn store_failed(&self) -> bool {
        !std::mem::replace(&mut self.noticed().store_error, true)
    }

    /// Returns whether this is news.
    pub(super) fn space_rolled_back(&self, space: &str, how: &Arc<RolledBack>) -> bool {
        let mut noticed = self.noticed();
        if let Some(known) = noticed.rolled_back.get_mut(space) {
            known.how = how.clone();
            return false;
        }
        let rollback = Rollback { how: how.clone(), reported_at: None };
        noticed.rolled_back.insert(space.to_owned(), rollback).is_none()
    }

    /// Whether it is time to write down what was seen of a space that was rolled back.
    pub(super) fn wants_report(&self, space: &str, is_served: bool) -> bool {
        let mut noticed = self.noticed();
        let Some(rollback) = noticed.rolled_back.get_mut(space) else { return false };
        if !is_served && rollback.reported_at.is_some_and(|at| at.elapsed() < REPORT_EVERY) {
            return false;
        }
        rollback.reported_at = Some(Instant::now());
        true
    }

    /// Returns whether this is news.
    pub(super) fn tokens_rolled_back(&self) -> bool {
        !std::mem::replace(&mut self.noticed().tokens_rolled_back, true)
    }

    pub(super) fn tokens_are_good(&self) {
        if std::mem::take(&mut self.noticed().tokens_rolled_back) {
            tracing::info!("the token list is no longer rolled back");
        }
    }

    /// All spaces but these are as they should be.
    pub(super) fn recovered_all_but(&self, refused: &HashSet<String>) {
        self.noticed().rolled_back.retain(|space, _| {
            let stays = refused.contains(space);
            if !stays {
                tracing::info!(space, "the keyspace is no longer rolled back; leasing keys again");
            }
            stays
        });
    }

    fn noticed(&self) -> std::sync::MutexGuard<'_, Noticed> {
        self.noticed.lock().expect("nothing panics while it is held")
    }
}

impl Service {
    /// Whether this instance can serve, and what is wrong.
    pub fn health(&self) -> Health {
        let mut ready = true;
        let mut problems = Vec::new();
        let mut problem = |code, space: Option<&str>, detail: String| {
            problems.push(Problem { code, space: space.map(str::to_owned), detail });
        };
        if *self.inner.stop.borrow() {
            ready = false;
            problem("stopping", None, "this instance is stopping".to_owned());
        }
        if self.inner.unsafe_store.is_some() {
            problem("unsafe_store", None, UNSAFE.to_owned());
        }
        let unreachable;
        let mut rolled_back = {
            let noticed = self.inner.health.noticed();
            unreachable = noticed.store_error;
            if unreachable {
                problem("store_unavailable", None, UNREACHABLE.to_owned());
            }
            if noticed.tokens_rolled_back {
                problem("tokens_rolled_back", None, ROLLED_BACK.to_owned());
            }
            let rolled_back = noticed.rolled_back.iter();
            rolled_back
                .map(|(space, it)| (space.clone(), it.how.clone()))
                .collect::<BTreeMap<_, _>>()
        };
        for space in self.known_spaces() {
            // A sealed keyspace makes no more IDs anyway.
            let timeline = space.timeline().filter(|_| !space.record().sealed);
            if let Some(timeline) = timeline.filter(|it| it.ends_soon(Timestamp::now())) {
                let at = timeline.runs_out_at();
                problem(
                    "runs_out",
                    Some(&space.name),
                    format!("its timestamps end at {at}; plan for another keyspace"),
                );
            }
            if unreachable && space.needs_store() {
                ready = false;
                let detail = "each key must be recorded before it is handed out, and the store is \
                              unreachable";
                problem("store_unavailable", Some(&space.name), detail.to_owned());
                continue;
            }
            let dry = space.at_hand() == 0;
            let Some(queue) = space.source.queue() else {
                // It never has keys in memory, so it counts as dry.
                ready &= !rolled_back.contains_key(&space.name);
                continue;
            };
            match &*queue.outlook() {
                Outlook::Filling | Outlook::Sealed | Outlook::PoolFilling => {}
                Outlook::Unreachable(_) => {
                    ready &= !dry;
                    problem("store_unavailable", Some(&space.name), UNREACHABLE.to_owned());
                }
                Outlook::NoWorker(reason) => {
                    ready &= !dry;
                    problem("no_worker", Some(&space.name), reason.clone());
                }
                Outlook::Exhausted { .. } if space.is_empty_pool() => problem(
                    "pool_empty",
                    Some(&space.name),
                    format!(
                        "its pool is empty; run `keymill pool fill {} --count 100000`",
                        space.name
                    ),
                ),
                Outlook::Exhausted { held_elsewhere } => problem(
                    "exhausted",
                    Some(&space.name),
                    format!("all keys are leased, {held_elsewhere} of them to other instances"),
                ),
                Outlook::RolledBack(how) => {
                    ready &= !dry;
                    rolled_back.insert(space.name.clone(), how.clone());
                }
            }
        }
        for (space, how) in rolled_back {
            problem("store_rolled_back", Some(&space), how.to_string());
        }
        Health { ready, problems }
    }
}
