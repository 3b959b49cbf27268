//! One worker and two instances: the first is paused for longer than its window, the second leases
//! the worker, the first wakes up, and both are asked for IDs at once. And the negative control: the
//! same with instances that do not mind the end of their windows, and the harness sees it.

use std::time::{Duration, Instant};

use keymill_proof::{Caller, Deployment, Fleet, Load, Received, Server, ServerSpec};

use super::super::eventually;
use super::{ENDLESS_SECONDS, Layout, SPACE, endless, gives, instance, make, turned_away};

const LAYOUT: Layout = Layout { worker_bits: 0 };
const WINDOW_SECONDS: u64 = 2;
/// How long a pause may be.
const PAUSE_MAX: Duration = Duration::from_secs(6);
/// How long both are asked at once.
const BOTH: Duration = Duration::from_secs(1);
const BATCH: u32 = 2_000;

#[test]
fn an_instance_that_slept_through_the_end_of_its_window_makes_no_id_of_it() {
    let deployment = Deployment::sqlite();
    let (fleet, mut received) = run(&deployment, |spec| spec, WINDOW_SECONDS);
    assert!(received.refusals.contains_key("503 no_worker"), "it was not told that it is held");
    fleet.hold(1).stop();
    let mut sleeper = fleet.hold(0);
    eventually("it gets the worker when that is free", || gives(&mut received, &sleeper, 100));
    sleeper.stop();
    received.check("both");
}

#[test]
fn an_instance_that_does_not_mind_the_end_of_its_window_shows() {
    let deployment = Deployment::sqlite();
    let (fleet, received) = run(&deployment, endless, ENDLESS_SECONDS);
    println!("{received}");
    assert!(received.refusals.is_empty(), "{}", fleet.hold(0).log());
    assert!(received.duplicated() > 0, "a window that is used after its end went unnoticed");
}

/// Both instances after the run, the sleeper first, and what they gave; refused is only who was so in the end, when
/// both were asked at once.
fn run(
    deployment: &Deployment,
    with: impl Fn(ServerSpec) -> ServerSpec,
    window_seconds: u64,
) -> (Fleet, Received) {
    let fleet = Fleet::start(["sleeper", "other"].map(|name| with(instance(deployment, name))));
    let mut received = LAYOUT.received();
    {
        let (sleeper, other) = (fleet.hold(0), fleet.hold(1));
        make(&sleeper, LAYOUT, window_seconds);
        eventually("it has the worker", || gives(&mut received, &sleeper, 100));
        turned_away(&mut received, &other);
        eventually("its worker is free", || {
            pause_until(&sleeper, || gives(&mut received, &other, 100))
        });
        sleeper.resume();
    }
    received.refusals.clear();
    let callers = [0, 1].map(|server| Caller::http(SPACE).of(server).takes(BATCH));
    let received = Load::of(callers).received(received).run(&fleet, |run| _ = run.end.wait(BOTH));
    received.check_answered(&["503"]);
    (fleet, received)
}

/// Pauses a server until something is so, but not for much longer than its window: it may have been
/// paused in the middle of a transaction of SQLite's, which stops all others. Then it goes on.
fn pause_until(server: &Server, mut is_so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    server.pause();
    while begin.elapsed() < PAUSE_MAX {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    server.resume();
    false
}
