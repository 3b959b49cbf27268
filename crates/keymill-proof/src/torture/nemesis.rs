//! The nemesis: kills, pauses and stops servers, always while takes are under way there.
//!
//! Each deed has a thread of its own, so that one server is killed while another is paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::fleet::{Fleet, Held};
use super::{Harm, Torture};
use crate::checker::Report;
use crate::dice::Dice;

/// What a nemesis does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Kill,
    Pause,
    Stop,
}

pub(super) struct Nemesis<'a> {
    deed: Deed,
    harm: &'a Harm,
    fleet: &'a Fleet,
    dice: Dice,
    /// How often it was done.
    pub(super) done: Arc<AtomicU32>,
}

impl Deed {
    pub(super) fn harm_of(self, torture: &Torture) -> &Harm {
        match self {
            Deed::Kill => &torture.kills,
            Deed::Pause => &torture.pauses,
            Deed::Stop => &torture.stops,
        }
    }

    pub(super) fn count_in(self, report: &mut Report) -> &mut u32 {
        match self {
            Deed::Kill => &mut report.kills,
            Deed::Pause => &mut report.pauses,
            Deed::Stop => &mut report.stops,
        }
    }
}

impl<'a> Nemesis<'a> {
    pub(super) fn new(deed: Deed, torture: &'a Torture, fleet: &'a Fleet) -> Nemesis<'a> {
        Nemesis {
            deed,
            harm: deed.harm_of(torture),
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
            let victim = self.dice.number(0..self.fleet.len() as u64);
            let victim = usize::try_from(victim).expect("it is below a usize");
            if let Some(held) = self.fleet.hold(victim) {
                self.harm(held);
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn harm(&mut self, mut held: Held<'_>) {
        match self.deed {
            Deed::Kill => held.server.kill(),
            Deed::Pause => held.server.pause(),
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
