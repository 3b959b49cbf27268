//! The nemesis: kills, pauses and stops servers, always while takes are under way there; and
//! kills the server of their store.
//!
//! Each deed has a thread of its own, so that one server is killed while another is paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::fleet::{Fleet, Held};
use super::{Harm, Store, Torture};
use crate::checker::Report;
use crate::random::Dice;

/// What a nemesis does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Kill,
    Pause,
    Stop,
    KillStore,
}

pub(super) struct Nemesis<'a> {
    deed: Deed,
    harm: &'a Harm,
    store: Option<&'a Store>,
    fleet: &'a Fleet,
    dice: Dice,
    /// How often it was done.
    pub(super) done: Arc<AtomicU32>,
}

impl Deed {
    pub(super) const ALL: [Deed; 4] = [Deed::Kill, Deed::Pause, Deed::Stop, Deed::KillStore];

    pub(super) fn harm_of(self, torture: &Torture) -> &Harm {
        match self {
            Deed::Kill => &torture.kills,
            Deed::Pause => &torture.pauses,
            Deed::Stop => &torture.stops,
            Deed::KillStore => &torture.store_kills,
        }
    }

    pub(super) fn count_in(self, report: &mut Report) -> &mut u32 {
        match self {
            Deed::Kill => &mut report.kills,
            Deed::Pause => &mut report.pauses,
            Deed::Stop => &mut report.stops,
            Deed::KillStore => &mut report.store_kills,
        }
    }
}

impl<'a> Nemesis<'a> {
    pub(super) fn new(deed: Deed, torture: &'a Torture, fleet: &'a Fleet) -> Nemesis<'a> {
        Nemesis {
            deed,
            harm: deed.harm_of(torture),
            store: torture.store.as_ref(),
            fleet,
            dice: Dice::new(torture.seed.wrapping_mul(3).wrapping_add(deed as u64)),
            done: Arc::default(),
        }
    }

    /// Does its deed, again and again until the run ends.
    pub(super) fn run(mut self) {
        if self.harm.count == 0 {
            return;
        }
        let _end = self.fleet.end_when_dropped();
        while !self.fleet.wait(self.dice.time(&self.harm.every)) {
            if self.deed == Deed::KillStore {
                self.kill_store();
                continue;
            }
            let victim = self.dice.number(0..self.fleet.len() as u64);
            let victim = usize::try_from(victim).expect("it is below a usize");
            if let Some(held) = self.fleet.hold(victim) {
                self.harm(held);
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn kill_store(&mut self) {
        let store = self.store.expect("a run that kills its store has one");
        let mut store = store.lock().expect("no thread panicked with it");
        store.kill();
        self.fleet.wait(self.dice.time(&self.harm.lasting));
        // Also at the end of the run: the servers are to give back what they hold.
        store.start();
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn harm(&mut self, mut held: Held<'_>) {
        match self.deed {
            Deed::Kill => held.server.kill(),
            Deed::Pause => held.server.pause(),
            Deed::KillStore => unreachable!("that is no harm to a server"),
            Deed::Stop => {
                let status = held.server.stop();
                let log = || held.server.log();
                assert!(status.success(), "a stop ended with {status}:\n{}", log());
            }
        }
        if self.deed == Deed::Pause {
            self.fleet.wait(self.dice.time(&self.harm.lasting));
            held.server.resume();
        } else {
            held.strike();
            self.fleet.wait(self.dice.time(&self.harm.lasting));
            held.start_again();
        }
    }
}
