//! The plan of a bench: how many users there are at a time, at which pace they ask, and when it ends.
//!
//! `load` follows it. Nothing here has a clock: it is told how much time has passed.

use std::time::Duration;

use super::values::{Rate, Stage};

/// How the load is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Load {
    /// Users come and go by ramps; each asks again when it has an answer.
    Stages(Vec<Stage>),
    /// Requests are due at a rate, whether the ones before are answered or not.
    Rate { rate: Rate, connections: u32 },
    /// Each connection asks again when it has an answer.
    Full { connections: u32 },
}

/// What to do, and when to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) load: Load,
    /// How long; `None` if only the number of keys ends it.
    pub(super) time: Option<Duration>,
    /// How many keys; `None` if only the time ends it.
    pub(super) keys: Option<u64>,
}

impl Plan {
    /// How many users there are after a time; `None` when it is over.
    pub(super) fn users_at(&self, elapsed: Duration) -> Option<u32> {
        if self.time.is_some_and(|time| elapsed >= time) {
            return None;
        }
        match &self.load {
            Load::Stages(stages) => users_in(stages, elapsed),
            Load::Rate { connections, .. } | Load::Full { connections } => Some(*connections),
        }
    }

    /// The most users that there are at a time.
    pub(super) fn users_max(&self) -> u32 {
        match &self.load {
            Load::Stages(stages) => stages.iter().map(|stage| stage.users).max().unwrap_or(0),
            Load::Rate { connections, .. } | Load::Full { connections } => *connections,
        }
    }
}

impl Rate {
    /// How many requests are due after a time: the first at once.
    pub(super) fn due(&self, elapsed: Duration) -> u64 {
        let due = elapsed.as_nanos() * u128::from(self.count) / self.per.as_nanos();
        u64::try_from(due).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// When a request is due, by its number.
    pub(super) fn due_at(&self, number: u64) -> Duration {
        let nanos = u128::from(number) * self.per.as_nanos() / u128::from(self.count);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Users along the ramps, which begin at zero. A part of a user counts as one, so that there is one at once.
fn users_in(stages: &[Stage], elapsed: Duration) -> Option<u32> {
    let (mut from, mut begin) = (0_u32, Duration::ZERO);
    for Stage { users: to, time } in stages {
        let passed = elapsed.saturating_sub(begin);
        if passed < *time {
            let (passed, time) = (passed.as_nanos().max(1), time.as_nanos());
            let change = u128::from(from.abs_diff(*to)) * passed;
            let users = match to >= &from {
                true => u128::from(from) + change.div_ceil(time),
                false => u128::from(from) - change / time,
            };
            return Some(u32::try_from(users).expect("it is between two numbers of users"));
        }
        (from, begin) = (*to, begin + *time);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::values::stages;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn users_follow_the_ramps() {
        let load = Load::Stages(stages("50:30s,1000:30s,0:10s").unwrap().0);
        let plan = Plan { load, time: None, keys: None };
        for (second, users) in [
            (0, Some(1)),
            (15, Some(25)),
            (30, Some(51)),
            (45, Some(525)),
            (60, Some(1_000)),
            (65, Some(500)),
            (70, None),
        ] {
            assert_eq!(plan.users_at(second * SECOND), users, "after {second} s");
        }
        assert_eq!(plan.users_max(), 1_000);
        let short = Plan { time: Some(SECOND), ..plan };
        assert_eq!(short.users_at(SECOND), None);
    }

    #[test]
    fn a_stage_with_as_many_users_as_before_holds_them() {
        let load = Load::Stages(stages("7:1s,7:10s").unwrap().0);
        let plan = Plan { load, time: None, keys: None };
        assert_eq!(plan.users_at(5 * SECOND), Some(7));
    }

    #[test]
    fn requests_are_due_at_the_rate() {
        let rate = Rate { count: 3, per: SECOND };
        assert_eq!([0, 1, 10].map(|second| rate.due(second * SECOND)), [1, 4, 31]);
        assert_eq!(rate.due_at(0), Duration::ZERO);
        assert_eq!(rate.due_at(3_000_000_000), 1_000_000_000 * SECOND);
        for number in 0..100 {
            let at = rate.due_at(number) + Duration::from_nanos(1);
            assert_eq!(rate.due(at), number + 1, "neither early nor late");
        }
    }
}
