//! Five instances on eight workers, which are killed, paused for longer than their windows and
//! stopped, while callers take IDs of all of them.

use std::time::{Duration, Instant};

use fastrand::Rng;
use keymill_proof::backend::Kind;
use keymill_proof::fleet::Held;
use keymill_proof::{Caller, Deployment, Fleet, HttpTake, Load, Received, Run, ServerSpec};

use super::super::eventually;
use super::{ENDLESS_SECONDS, Layout, SPACE, endless, gives, instance, make};

const INSTANCES: usize = 5;
const LAYOUT: Layout = Layout { worker_bits: 3 };
const WINDOW: Duration = Duration::from_secs(1);
/// How many IDs to receive, unless `KEYMILL_SNOWFLAKE_IDS` says another number.
const IDS: usize = 5_000_000;
/// The end, whether all was reached or not.
const TIME_MAX: Duration = Duration::from_secs(150);
/// How many runs the negative control has to show a duplicate.
const RUNS_MAX: usize = 8;
/// One caller for each instance, and some who ask one after another.
const CALLERS: usize = INSTANCES + 3;
/// How long a caller waits for its instance, and how long those who can ask another one.
const PATIENCE: [Duration; 2] = [Duration::from_secs(8), Duration::from_millis(300)];

#[test]
fn no_id_comes_twice_from_instances_that_are_harmed_on_sqlite() {
    check("SQLite", &Deployment::sqlite());
}

#[test]
fn no_id_comes_twice_from_instances_that_are_harmed_on_postgres() {
    check_server(Kind::Postgres);
}

#[test]
fn no_id_comes_twice_from_instances_that_are_harmed_on_redis() {
    check_server(Kind::Redis);
}

#[test]
fn no_id_comes_twice_from_instances_that_are_harmed_on_etcd() {
    check_server(Kind::Etcd);
}

fn check_server(kind: Kind) {
    if let Some(deployment) = Deployment::on_server(kind) {
        check(&format!("{kind:?}"), &deployment);
    }
}

/// The negative control. Two instances with one worker repeat an ID only if both are asked within
/// the same millisecond, which a single run may miss.
#[test]
fn the_same_harm_shows_that_instances_do_not_mind_the_end_of_their_windows() {
    let shows = |_| {
        let deployment = Deployment::sqlite();
        let spec = |data_dir: String| endless(instance(&deployment, &data_dir));
        let (_fleet, received, done) = run(spec, ENDLESS_SECONDS);
        println!("{done:?}\n{received}");
        received.duplicated() > 0
    };
    assert!((0..RUNS_MAX).any(shows), "windows that are used after their end went unnoticed");
}

fn check(name: &str, deployment: &Deployment) {
    let spec = |data_dir: String| instance(deployment, &data_dir);
    let (fleet, mut received, done) = run(spec, WINDOW.as_secs());
    // Nothing has taken a worker for good.
    for mut server in fleet.each() {
        eventually("every instance gives IDs again", || gives(&mut received, &server, 100));
        server.stop();
    }
    received.check(&format!("{name}, {done:?}"));
    assert!(done.is_enough(received.len()), "the run fell short");
    received.check_refusals(&["503 no_worker", "503 no_keys_ready"]);
}

/// How often what was done to instances.
#[derive(Debug, Default)]
struct Done {
    kills: u32,
    /// Pauses for longer than a window, in which all other instances came anew.
    long_pauses: u32,
    stops: u32,
}

impl Done {
    fn is_enough(&self, ids: usize) -> bool {
        ids >= wanted() && self.kills >= 5 && self.long_pauses >= 3 && self.stops >= 3
    }
}

fn wanted() -> usize {
    std::env::var("KEYMILL_SNOWFLAKE_IDS").map_or(IDS, |ids| ids.parse().unwrap())
}

/// Runs until all is reached; the instances, what callers received, and what was done.
fn run(spec: impl Fn(String) -> ServerSpec, window_seconds: u64) -> (Fleet, Received, Done) {
    let fleet = Fleet::start((0..INSTANCES).map(|number| spec(format!("d{number}"))));
    make(&fleet.hold(0), LAYOUT, window_seconds);
    let load = Load::of((0..CALLERS).map(caller)).received(LAYOUT.received()).enough(wanted());
    let mut done = Done::default();
    let received = load.run(&fleet, |run| {
        let begin = Instant::now();
        let mut rng = Rng::with_seed(run.seed);
        let waits = |millis| run.end.wait(Duration::from_millis(millis));
        while !done.is_enough(run.keys()) && begin.elapsed() < TIME_MAX && !waits(200) {
            pause(run, rng.usize(..INSTANCES), &mut done);
            if !waits(300) {
                restart(run, rng.usize(..INSTANCES), Held::kill);
                done.kills += 1;
            }
            if !waits(300) {
                restart(run, rng.usize(..INSTANCES), Held::stop);
                done.stops += 1;
            }
        }
    });
    (fleet, received, done)
}

/// Takes of one instance, or of one after another.
fn caller(number: usize) -> Caller<'static> {
    let stays = number < INSTANCES;
    let patience = PATIENCE[usize::from(!stays)];
    let caller = Caller::over(move |address| HttpTake::new(address, SPACE).time_max(patience));
    let caller = if stays { caller.of(number) } else { caller };
    caller.takes_by(|rng| if rng.u8(..8) == 0 { 1 } else { rng.u32(500..2_000) })
}

/// Ends an instance like that, and starts it again.
fn restart<'a>(run: &'a Run<'_>, victim: usize, end: fn(&mut Held<'a>)) {
    let mut server = run.fleet.hold(victim);
    end(&mut server);
    server.start();
}

/// Pauses an instance for longer than its window, and has another lease its worker meanwhile: the
/// other four come anew, and four workers are free then.
fn pause(run: &Run<'_>, victim: usize, done: &mut Done) {
    let server = run.fleet.hold(victim);
    server.pause();
    if run.end.wait(WINDOW + Duration::from_millis(100)) {
        return server.resume();
    }
    std::thread::scope(|scope| {
        let coming = scope.spawn(|| {
            for next in 1..INSTANCES {
                restart(run, (victim + next) % INSTANCES, Held::kill);
            }
        });
        // One that was paused in a transaction of SQLite's stops all others.
        let begin = Instant::now();
        while !coming.is_finished() && begin.elapsed() < WINDOW * 2 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let is_in_time = coming.is_finished() && !run.end.wait(Duration::from_millis(200));
        server.resume();
        done.long_pauses += u32::from(is_in_time);
    });
    done.kills += u32::try_from(INSTANCES - 1).unwrap();
}
