//! Harm: kills, pauses and stops of servers, always while takes are under way there; and kills of the server of
//! their store. Which server and when follows from the seed of the run.
//!
//! Each harm has a thread of its own, so that one server is killed while another is paused.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::backend::Backend;
use crate::end::End;
use crate::fleet::Held;
use crate::load::Run;

/// How often it is looked whether all is reached.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often it is looked whether a take is under way.
const LOOK_FOR_TAKES_EVERY: Duration = Duration::from_micros(200);

/// The store's server, where it is to be harmed too.
pub type StoreServer = Mutex<Box<dyn Backend>>;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// A server is killed (`SIGKILL`), is down for a time, and is started again.
    Kill,
    /// A server is paused (`SIGSTOP`) and goes on (`SIGCONT`).
    Pause,
    /// A server is stopped in order (`SIGTERM`), which gives leases back; then it is started again.
    Stop,
    /// The store's server is killed, is down for a time, and is started again.
    KillStore,
}

/// One thing that is done again and again.
#[derive(Debug, Clone)]
pub struct Harm {
    /// What.
    pub deed: Deed,
    /// How often, at least; never where it is 0.
    pub count: u32,
    /// How many milliseconds are between.
    pub every: Range<u64>,
    /// How many milliseconds it lasts: the pause, or how long the server is down.
    pub lasting: Range<u64>,
    /// Which servers it is done to; all, where that is not said.
    pub victims: Option<Range<usize>>,
}

/// All that is done in a run.
#[derive(Default)]
pub struct Plan {
    /// The harm.
    pub harms: Vec<Harm>,
    /// The store's server.
    pub store: Option<StoreServer>,
}

impl Harm {
    /// So many times, every so many milliseconds, lasting so many.
    pub fn new(deed: Deed, count: u32, every: Range<u64>, lasting: Range<u64>) -> Harm {
        Harm { deed, count, every, lasting, victims: None }
    }

    /// The same to these servers only.
    pub fn to(self, victims: Range<usize>) -> Harm {
        Harm { victims: Some(victims), ..self }
    }
}

impl Plan {
    /// Does it until `is_reached`, which is told whether all is done as often as it should be, or the time is over;
    /// how often each was done. Callers go on.
    ///
    /// # Panics
    ///
    /// With its log, when a server does not stop or start.
    pub fn run(
        &self,
        run: &Run<'_>,
        time_max: Duration,
        is_reached: impl Fn(bool) -> bool,
    ) -> Vec<u32> {
        let begin = Instant::now();
        let done: Vec<AtomicU32> = self.harms.iter().map(|_| AtomicU32::new(0)).collect();
        let counts = || done.iter().map(|done| done.load(Ordering::SeqCst));
        let over = End::default();
        std::thread::scope(|scope| {
            let _over = over.when_dropped();
            for (number, (harm, done)) in self.harms.iter().zip(&done).enumerate() {
                if harm.count > 0 {
                    let rng = Rng::with_seed(run.seed.wrapping_mul(3).wrapping_add(number as u64));
                    let (store, over) = (self.store.as_ref(), &over);
                    let doer = Doer { harm, run, store, rng, over };
                    scope.spawn(move || doer.work(done));
                }
            }
            while !is_reached(self.is_done(counts()))
                && begin.elapsed() < time_max
                && !run.end.wait(LOOK_EVERY)
            {}
        });
        counts().collect()
    }

    /// Whether all was done as often as it should be.
    pub fn is_done(&self, counts: impl IntoIterator<Item = u32>) -> bool {
        self.harms.iter().zip(counts).all(|(harm, count)| count >= harm.count)
    }
}

/// Whoever does one harm.
struct Doer<'a> {
    harm: &'a Harm,
    run: &'a Run<'a>,
    store: Option<&'a StoreServer>,
    rng: Rng,
    over: &'a End,
}

impl<'a> Doer<'a> {
    /// Does it again and again.
    fn work(mut self, done: &AtomicU32) {
        let _end = self.run.end.when_panicking();
        while !self.waits(|harm| &harm.every) {
            let is_done = match self.harm.deed {
                Deed::Kill => self.harm_server(Held::kill, Held::start),
                Deed::Pause => self.harm_server(|held| held.pause(), |held| held.resume()),
                Deed::Stop => self.harm_server(Held::stop, Held::start),
                Deed::KillStore => self.kill_store(),
            };
            done.fetch_add(u32::from(is_done), Ordering::SeqCst);
        }
    }

    fn kill_store(&mut self) -> bool {
        let store = self.store.expect("a plan that kills the store has its server");
        let mut store = store.lock().expect("no thread panicked with it");
        store.kill();
        self.waits(|harm| &harm.lasting);
        // Also at the end: the servers are to give back what they hold.
        store.start();
        true
    }

    /// Harms a server once takes are under way there, and ends that later; `false` when all is over first.
    fn harm_server(
        &mut self,
        begin: impl FnOnce(&mut Held<'a>),
        end: impl FnOnce(&mut Held<'a>),
    ) -> bool {
        let victims = self.harm.victims.clone().unwrap_or(0..self.run.fleet.len());
        let mut held = self.run.fleet.hold(self.rng.usize(victims));
        while !held.is_asked() {
            if self.over.wait(LOOK_FOR_TAKES_EVERY) {
                return false;
            }
        }
        begin(&mut held);
        self.waits(|harm| &harm.lasting);
        end(&mut held);
        true
    }

    /// Waits for a time by chance; whether all is over.
    fn waits(&mut self, range: impl Fn(&Harm) -> &Range<u64>) -> bool {
        let millis = self.rng.u64(range(self.harm).clone());
        self.over.wait(Duration::from_millis(millis))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use crate::caller::Caller;
    use crate::fleet::Fleet;
    use crate::load::Load;
    use crate::process::ServerSpec;
    use crate::take::Taken;

    use super::*;

    #[test]
    fn a_plan_is_done_to_its_victims_and_they_are_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = Fleet::start([(); 3].map(|()| ServerSpec::idle(folder.path())));
        let pids = || fleet.each().map(|server| server.pid()).collect::<Vec<_>>();
        let before = pids();
        let harms = vec![
            Harm::new(Deed::Kill, 2, 0..3, 0..3).to(0..1),
            Harm::new(Deed::Pause, 2, 0..3, 0..3).to(1..2),
        ];
        let plan = Plan { harms, store: None };
        let next = &AtomicU64::new(0);
        let connect = move |_| {
            move |_: u32| Taken::Keys(vec![next.fetch_add(1, Ordering::SeqCst).to_string()])
        };
        let mut done = Vec::new();
        let received = Load::of([0, 1].map(|server| Caller::over(connect).of(server)))
            .run(&fleet, |run| done = plan.run(run, Duration::from_secs(20), |is_done| is_done));
        received.check("under harm");
        assert!(plan.is_done(done.iter().copied()), "{done:?}");
        let after = pids();
        assert_eq!([before[0] == after[0], before[1] == after[1]], [false, true]);
        assert!(fleet.address(0).is_some());
    }
}
