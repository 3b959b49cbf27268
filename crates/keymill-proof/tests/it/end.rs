//! A space used up to its very last key.

use keymill_proof::{Server, ServerSpec};

use super::{Received, eventually, get, is_problem, put, take};

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
    let folder = tempfile::tempdir().unwrap();
    let servers: Vec<Server> = (0..servers)
        .map(|number| Server::start(&ServerSpec::keymill(folder.path(), &format!("d{number}"))))
        .collect();
    put(&servers[0], space, definition);
    // All at once, so that the last leases are spread over all of them.
    let received: Vec<Received> = std::thread::scope(|scope| {
        let drain = |address| {
            let mut received = Received::default();
            let end = received.drain_to_the_end(address, space, batch);
            is_problem(&end, 409, "exhausted");
            assert!(end.text().contains("held_elsewhere"), "{}", end.text());
            received
        };
        let addresses = servers.iter().map(Server::address);
        let drains: Vec<_> = addresses.map(|address| scope.spawn(move || drain(address))).collect();
        drains.into_iter().map(|drain| drain.join().unwrap()).collect()
    });
    let mut all = Received::default();
    for key in received.into_iter().flat_map(|received| received.keys) {
        assert!(all.keys.insert(key.clone()), "{key} was handed out twice");
    }
    assert_eq!(all.keys.len(), capacity);
    println!("{} of {capacity} keys of `{space}`, each once", all.keys.len());
}

#[test]
fn a_range_that_comes_back_is_found_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let spec = |data_dir| {
        ServerSpec::keymill(folder.path(), data_dir).env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.2")
    };
    let (first, mut second) = (Server::start(&spec("d0")), Server::start(&spec("d1")));
    put(&first, "small", SEQUENTIAL);
    let mut received = Received::default();
    // The second one holds a lease of which it hands out one key.
    received.add(&take(&second, "small", 1));
    let end = received.drain(first.address(), "small", 10);
    is_problem(&end, 409, "exhausted");
    let held = 1_000 - received.keys.len();
    assert!(held > 0, "the second server held nothing");
    // What others hold counts by lease, so it includes what of it is drawn.
    assert!(end.text().contains(&format!("\"held_elsewhere\":{}", held + 1)), "{}", end.text());
    second.stop();
    eventually("what came back is taken", || {
        received.drain(first.address(), "small", 10);
        received.keys.len() == 1_000
    });
    is_problem(&take(&first, "small", 1), 409, "exhausted");
}

#[test]
fn an_instance_that_never_held_a_lease_finds_what_comes_back_too() {
    let folder = tempfile::tempdir().unwrap();
    let spec = |data_dir| {
        ServerSpec::keymill(folder.path(), data_dir).env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.2")
    };
    let (mut first, second) = (Server::start(&spec("d0")), Server::start(&spec("d1")));
    let one = r#"{"kind": "sequential", "alphabet": "01", "length": 1, "blocklist": false}"#;
    put(&first, "two", one);
    let mut received = Received::default();
    received.add(&take(&first, "two", 1));
    eventually("the first has leased all", || {
        get(&first, "/v1/spaces/two").text().contains("\"remaining\":0")
    });
    is_problem(&take(&second, "two", 1), 409, "exhausted");
    first.stop();
    eventually("what came back is taken", || {
        let answer = take(&second, "two", 1);
        answer.status == 200 && received.add(&answer) == 1
    });
    assert_eq!(received.keys.len(), 2);
}
