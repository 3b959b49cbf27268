//! A space used up to its very last key.

use keymill_proof::{Caller, Deployment, Fleet, Load, Received, Taken};

use super::{eventually, get, gives, is_problem, put, take, watchful};

const SHUFFLED: &str = r#"{"alphabet": "base36", "length": 4, "blocklist": false}"#;
const SEQUENTIAL: &str =
    r#"{"kind": "sequential", "alphabet": "decimal", "length": 3, "blocklist": false}"#;

#[test]
fn one_process_hands_out_every_key_exactly_once() {
    check(1, "shuffled", SHUFFLED, 36_usize.pow(4), 50_000);
    check(1, "sequential", SEQUENTIAL, 1_000, 7);
}

#[test]
fn three_processes_hand_out_every_key_exactly_once() {
    check(3, "shuffled", SHUFFLED, 36_usize.pow(4), 50_000);
    check(3, "sequential", SEQUENTIAL, 1_000, 7);
}

fn check(servers: usize, space: &str, definition: &str, capacity: usize, batch: u32) {
    let deployment = Deployment::sqlite();
    let fleet = Fleet::start((0..servers).map(|number| deployment.server(&format!("d{number}"))));
    put(&fleet.hold(0), space, definition);
    // All at once, so that the last leases are spread over all of them. The last keys come by ever smaller leases,
    // and may take longer than one take waits: what it had drawn is still there for the next one.
    let is_end = |taken: &Taken| !taken.is_keys() && !taken.is_refused("503 no_keys_ready");
    let caller = |server| Caller::http(space).of(server).takes(batch).until(is_end);
    let received = Load::of((0..servers).map(caller)).run_to_its_end(&fleet);
    received.check_unique(&format!("{capacity} keys of `{space}`"));
    received.check_answered(&["409 exhausted", "503 no_keys_ready"]);
    assert_eq!(received.len(), capacity);
    for server in fleet.each() {
        let end = take(&server, space, batch);
        is_problem(&end, 409, "exhausted");
        assert!(end.text().contains("held_elsewhere"), "{}", end.text());
    }
}

#[test]
fn a_range_that_comes_back_is_found_and_drawn() {
    let deployment = Deployment::sqlite();
    let [first, mut second] = ["d0", "d1"].map(|name| watchful(&deployment, name).start());
    put(&first, "small", SEQUENTIAL);
    let mut received = Received::default();
    // The second one holds a lease of which it hands out one key.
    received.add(&take(&second, "small", 1));
    let end = received.drain(first.address(), "small", 10);
    is_problem(&end, 409, "exhausted");
    let held = 1_000 - received.len();
    assert!(held > 0, "the second server held nothing");
    // What others hold counts by lease, so it includes what of it is drawn.
    assert!(end.text().contains(&format!("\"held_elsewhere\":{}", held + 1)), "{}", end.text());
    second.stop();
    eventually("what came back is taken", || {
        received.drain(first.address(), "small", 10);
        received.len() == 1_000
    });
    is_problem(&take(&first, "small", 1), 409, "exhausted");
}

#[test]
fn an_instance_that_never_held_a_lease_finds_what_comes_back_too() {
    let deployment = Deployment::sqlite();
    let [mut first, second] = ["d0", "d1"].map(|name| watchful(&deployment, name).start());
    let one = r#"{"kind": "sequential", "alphabet": "01", "length": 1, "blocklist": false}"#;
    put(&first, "two", one);
    let mut received = Received::default();
    received.add(&take(&first, "two", 1));
    eventually("the first has leased all", || {
        get(&first, "/v1/spaces/two").text().contains("\"remaining\":0")
    });
    is_problem(&take(&second, "two", 1), 409, "exhausted");
    first.stop();
    eventually("what came back is taken", || gives(&mut received, &second, "two", 1));
    assert_eq!(received.len(), 2);
}
