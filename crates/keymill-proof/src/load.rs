//! A load: callers at work on a fleet, while something happens to it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::caller::Caller;
use crate::end::End;
use crate::fleet::Fleet;
use crate::received::Received;
use crate::take::Taken;

/// How often it is looked whether callers are still at work.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A load, before it begins.
pub struct Load<'a> {
    callers: Vec<Caller<'a>>,
    received: Received,
    enough: usize,
    seed: u64,
}

/// Callers at work, as the one sees them who harms their servers meanwhile.
pub struct Run<'a> {
    /// The servers.
    pub fleet: &'a Fleet,
    /// What callers do by chance follows from it, and so should harm.
    pub seed: u64,
    /// The end of all callers: when what happens to the fleet is over, or somebody panics.
    pub end: End,
    received: Mutex<Received>,
    keys: AtomicUsize,
    enough: usize,
    at_work: AtomicUsize,
}

/// A caller at work, as long as it lives.
struct AtWork<'a>(&'a AtomicUsize);

impl<'a> Load<'a> {
    /// A load by these callers.
    pub fn of(callers: impl IntoIterator<Item = Caller<'a>>) -> Load<'a> {
        let callers = callers.into_iter().collect();
        Load { callers, received: Received::default(), enough: usize::MAX, seed: 1 }
    }

    /// The same; what callers receive is added to what there is.
    pub fn received(self, received: Received) -> Load<'a> {
        Load { received, ..self }
    }

    /// The same, but callers take their time once there are so many keys.
    pub fn enough(self, keys: usize) -> Load<'a> {
        Load { enough: keys, ..self }
    }

    /// The same with other choices by chance.
    pub fn seed(self, seed: u64) -> Load<'a> {
        Load { seed, ..self }
    }

    /// Has the callers take until all of them have enough; what they received.
    ///
    /// # Panics
    ///
    /// When a caller panics; all have ended then.
    pub fn run_to_its_end(self, fleet: &Fleet) -> Received {
        self.run(fleet, |run| {
            run.wait_for_callers();
        })
    }

    /// Has the callers take for as long as `during` lasts; what they received.
    ///
    /// # Panics
    ///
    /// When a caller or `during` panics; the callers have ended then.
    pub fn run(self, fleet: &Fleet, during: impl FnOnce(&Run<'_>)) -> Received {
        // Shown where a test fails.
        println!("seed {}", self.seed);
        let run = Run {
            fleet,
            seed: self.seed,
            end: End::default(),
            keys: AtomicUsize::new(self.received.len()),
            received: Mutex::new(self.received),
            enough: self.enough,
            at_work: AtomicUsize::new(self.callers.len()),
        };
        std::thread::scope(|scope| {
            let _end = run.end.when_dropped();
            for (number, caller) in self.callers.into_iter().enumerate() {
                let run = &run;
                scope.spawn(move || {
                    let _at_work = AtWork(&run.at_work);
                    let _end = run.end.when_panicking();
                    caller.work(number, run);
                });
            }
            during(&run);
        });
        run.received.into_inner().expect("no caller panicked")
    }
}

impl Run<'_> {
    /// What callers received so far. They wait while it is held.
    ///
    /// # Panics
    ///
    /// When a caller panicked.
    pub fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().expect("no caller panicked")
    }

    /// How many different keys there are so far.
    pub fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// Whether callers are at work: some end by themselves.
    pub fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::SeqCst) > 0
    }

    /// Waits until all callers have ended by themselves.
    pub fn wait_for_callers(&self) {
        while self.is_at_work() && !self.end.wait(LOOK_EVERY) {}
    }

    pub(crate) fn has_enough(&self) -> bool {
        self.keys() >= self.enough
    }

    pub(crate) fn note(&self, caller: usize, from: SocketAddr, count: u32, taken: &Taken) {
        let mut received = self.received();
        received.note(caller, from, count, taken);
        self.keys.store(received.len(), Ordering::Relaxed);
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use crate::process::ServerSpec;

    use super::*;

    /// No server is asked: callers have a protocol of their own, which counts to ten again and again.
    #[test]
    fn a_load_over_any_protocol_ends_when_callers_have_enough_and_shows_what_came_twice() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = Fleet::start([ServerSpec::idle(folder.path())]);
        let next = &AtomicUsize::new(0);
        let connect = move |_| {
            move |_: u32| match next.fetch_add(1, Ordering::SeqCst) {
                3 => Taken::Refused("503 no_keys_ready".to_owned()),
                number => Taken::Keys(vec![(number % 10).to_string()]),
            }
        };
        let is_first = |taken: &Taken| *taken == Taken::Keys(vec!["0".to_owned()]);
        let callers = [(); 3].map(|()| Caller::over(connect).until(is_first));
        let received = Load::of(callers).run_to_its_end(&fleet);
        // One caller has ended with each of 0, 10 and 20.
        assert_eq!((received.attempted, received.acknowledged), (21, 20));
        assert_eq!((received.len(), received.duplicated(), received.refused()), (10, 9, 1));
        assert!(received.to_string().contains("0 × 3"), "{received}");
    }
}
