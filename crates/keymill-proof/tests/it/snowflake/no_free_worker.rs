//! Nine instances on eight workers: the ninth is told so, and gets the first worker that is free.

use std::collections::BTreeSet;

use keymill_proof::backend::Kind;
use keymill_proof::{Deployment, Received, Server};

use super::super::{eventually, get, is_problem, is_well};
use super::{Layout, gives, ids, instance, make, turned_away};

const LAYOUT: Layout = Layout { worker_bits: 3 };
const WINDOW_SECONDS: u64 = 3;

#[test]
fn a_ninth_instance_is_refused_until_a_worker_is_free_on_sqlite() {
    check("SQLite", &Deployment::sqlite());
}

#[test]
fn a_ninth_instance_is_refused_until_a_worker_is_free_on_postgres() {
    if let Some(deployment) = Deployment::on_server(Kind::Postgres) {
        check("PostgreSQL", &deployment);
    }
}

fn check(name: &str, deployment: &Deployment) {
    let start = |number: u64| instance(deployment, &format!("d{number}")).start();
    let mut servers: Vec<Server> = (0..LAYOUT.workers()).map(start).collect();
    make(&servers[0], LAYOUT, WINDOW_SECONDS);
    let mut received = LAYOUT.received();
    for server in &servers {
        eventually("it has a worker", || gives(&mut received, server, 100));
    }
    let workers: BTreeSet<u64> = ids(&received).map(|id| LAYOUT.worker(id)).collect();
    assert_eq!(workers, (0..LAYOUT.workers()).collect(), "each has a worker of its own");

    let ninth = start(8);
    is_turned_away(&mut received, &ninth);
    assert!(servers[0].stop().success());
    eventually("the worker of one that has stopped is free", || gives(&mut received, &ninth, 100));
    eventually("all is well again", || is_well(&ninth));

    let tenth = start(9);
    is_turned_away(&mut received, &tenth);
    servers[1].kill();
    eventually("the worker of one that was killed is free", || gives(&mut received, &tenth, 100));
    // Whoever had one has it still.
    for server in servers[2..].iter().chain([&ninth, &tenth]) {
        eventually("it goes on", || gives(&mut received, server, 100));
    }
    received.check(name);
}

/// An instance that finds no worker says so, and how many there are.
#[track_caller]
fn is_turned_away(received: &mut Received, server: &Server) {
    let refusal = turned_away(received, server);
    is_problem(&refusal, 503, "no_worker");
    assert!(refusal.header("retry-after").is_some(), "{}", refusal.text());
    assert!(refusal.text().contains("all 8 workers"), "{}", refusal.text());
    is_problem(&get(server, "/readyz"), 503, "no_worker");
}
