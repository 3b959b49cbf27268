//! A database of links that is down, or behind a network that swallows whatever is sent.

use std::time::{Duration, Instant};

use keymill_proof::backend::{Backend, Postgres, unless_missing};
use keymill_proof::proxy::{Fault, Proxy};
use keymill_proof::{Deployment, Fleet};

use super::{Visitor, is_problem, shortener, to};

/// Less than requests wait for, on a busy machine too.
const AT_ONCE: Duration = Duration::from_secs(5);
/// How many connections the shortener has.
const CONNECTIONS: usize = 8;
const URL: &str = "https://example.com/";

#[test]
fn health_is_told_at_once_while_the_database_is_down_or_silent() {
    let Some(mut postgres) = unless_missing(Postgres::start()) else { return };
    let (proxy, links) = Proxy::before(&postgres.url());
    let deployment = Deployment::sqlite();
    let fleet = Fleet::start([deployment.server("d0")]);
    let server = shortener(&fleet, &links, deployment.folder()).start();
    let mut visitor = Visitor::new(server.address(), 1);
    assert_eq!(visitor.request("GET", "/health").status, 200);
    postgres.stop();
    is_unhealthy_at_once(&mut visitor, "down");
    postgres.start();
    assert_eq!(visitor.request("GET", "/health").status, 200);
    proxy.set(Fault::Stall);
    is_unhealthy_at_once(&mut visitor, "silent");
    proxy.set(Fault::None);
    assert_eq!(visitor.request("GET", "/health").status, 200);
}

#[test]
fn connections_that_fell_silent_are_not_used_again() {
    let Some(postgres) = unless_missing(Postgres::start()) else { return };
    // The far one falls silent, and the near one leads new connections past it.
    let (far, links) = Proxy::before(&postgres.url());
    let (near, links) = Proxy::before(&links);
    let deployment = Deployment::sqlite();
    let fleet = Fleet::start([deployment.server("d0")]);
    let server = shortener(&fleet, &links, deployment.folder()).start();
    let mut visitor = Visitor::new(server.address(), 0);
    let key = visitor.key(&to(URL), 201);
    // Held back until each of them waits on a connection of its own.
    far.set(Fault::HoldBack("FROM links"));
    std::thread::scope(|scope| {
        for number in 1..=CONNECTIONS {
            let (key, address) = (&key, server.address());
            scope.spawn(move || Visitor::new(address, number).leads_to(key, URL));
        }
        while far.struck() < CONNECTIONS.try_into().unwrap() {
            std::thread::sleep(Duration::from_millis(5));
        }
        far.set(Fault::None);
    });
    far.set(Fault::Stall);
    near.lead_to(postgres.port());
    for number in 1..=CONNECTIONS {
        let asked = Instant::now();
        visitor.leads_to(&key, URL);
        println!("request {number} was answered after {:?}", asked.elapsed());
    }
}

#[track_caller]
fn is_unhealthy_at_once(visitor: &mut Visitor, what: &str) {
    let asked = Instant::now();
    is_problem(&visitor.request("GET", "/health"), 503, "unavailable");
    println!("{what}: told after {:?}", asked.elapsed());
    assert!(asked.elapsed() < AT_ONCE, "{what}: {:?}", asked.elapsed());
}
