//! Clean stops lose no ordinal; SIGKILL costs a gap, and keys still explain themselves.

use std::collections::BTreeSet;

use keymill_proof::{Deployment, Fleet, Received};

use super::{get, is_problem, put, take};

const TICKETS: &str =
    r#"{"kind": "sequential", "alphabet": "decimal", "length": 0, "lease_size_min": 100}"#;

const SMALL: &str = r#"{"kind": "sequential", "alphabet": "decimal", "length": 4}"#;

#[test]
fn one_instance_stopped_and_started_goes_on_where_it_was() {
    let deployment = Deployment::sqlite();
    let mut received = Received::default();
    for turn in 0..5 {
        let mut server = deployment.start("d0");
        put(&server, "tickets", TICKETS);
        received.add(&take(&server, "tickets", 30 + turn));
        assert!(server.stop().success());
    }
    assert_eq!(numbers(&received), (0..160).collect());
}

#[test]
fn three_instances_stopped_in_any_order_lose_nothing() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let deployment = Deployment::sqlite();
        let mut received = Received::default();
        for _ in 0..2 {
            let fleet = Fleet::start(["d0", "d1", "d2"].map(|name| deployment.server(name)));
            put(&fleet.hold(0), "small", SMALL);
            for server in fleet.each() {
                received.add(&take(&server, "small", 30));
            }
            for number in order {
                fleet.hold(number).stop();
            }
        }
        // Drawn to its end, the space has given every number exactly once.
        let server = deployment.start("d0");
        is_problem(&received.drain(server.address(), "small", 10), 409, "exhausted");
        assert_eq!(numbers(&received), (0..10_000).collect(), "stopped in the order {order:?}");
    }
}

#[test]
fn a_killed_instance_leaves_a_gap_and_its_keys_explain_themselves() {
    let deployment = Deployment::sqlite();
    let mut server = deployment.start("d0");
    put(&server, "tickets", TICKETS);
    let mut received = Received::default();
    received.add(&take(&server, "tickets", 30));
    let pid = server.pid();
    server.kill();
    let server = deployment.start("d0");
    received.add(&take(&server, "tickets", 30));
    assert_eq!(numbers(&received), (0..30).chain(100..130).collect());
    let told = get(&server, "/v1/spaces/tickets/keys/7");
    for part in [
        "\"state\":\"leased\"",
        &format!("\"pid\":{pid}"),
        "\"granted_at\":\"",
        "\"start\":0",
        "\"end\":100",
    ] {
        assert!(told.text().contains(part), "{part} is not in {}", told.text());
    }
}

fn numbers(received: &Received) -> BTreeSet<u64> {
    received.keys().map(|key| key.parse().unwrap()).collect()
}
