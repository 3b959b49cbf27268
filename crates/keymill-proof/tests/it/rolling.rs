//! Restarts under load: nobody who asks goes without an answer, and nobody gets a key twice.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keymill_proof::backend::{Nginx, unless_missing};
use keymill_proof::{Answer, Caller, Client, Deployment, Fleet, Load, Taken};

/// How many callers there are, each with a connection of its own.
const CALLERS: u64 = 32;
/// How long they take between two restarts.
const BETWEEN: Duration = Duration::from_millis(500);

#[test]
fn a_rolling_restart_behind_nginx_fails_no_request() {
    let deployment = Deployment::sqlite();
    let fleet = Fleet::start(["d0", "d1"].map(|name| deployment.server(name))).keeps_addresses();
    let addresses: Vec<_> = fleet.each().map(|server| server.address()).collect();
    let Some(nginx) = unless_missing(Nginx::start(&addresses)) else { return };
    // With `POST`, which nginx does not repeat.
    let callers = (0..CALLERS).map(|_| Caller::http("default").at(nginx.address()));
    let received = Load::of(callers).run(&fleet, |run| {
        run.end.wait(BETWEEN);
        for number in [0, 1, 0, 1] {
            let answered = || run.received().acknowledged;
            let before = answered();
            let mut server = fleet.hold(number);
            server.stop();
            server.start();
            let during = answered() - before;
            assert!(during > CALLERS, "only {during} answers while {number} was restarted");
            run.end.wait(BETWEEN);
        }
    });
    println!("{}", nginx.log());
    received.check("4 restarts");
    received.check_answered(&[]);
}

#[test]
fn a_stop_answers_every_request_that_was_sent_on_an_open_connection() {
    let deployment = Deployment::sqlite();
    let fleet = Fleet::start([deployment.server("d0")]);
    let is_told: Vec<AtomicBool> = (0..2 * CALLERS).map(|_| AtomicBool::new(false)).collect();
    let address = fleet.hold(0).address();
    let callers = is_told.iter().map(|is_told| caller(address, is_told));
    let received = Load::of(callers).run(&fleet, |run| {
        run.end.wait(BETWEEN);
        fleet.hold(0).stop();
        run.wait_for_callers();
    });
    received.check("a stop under load");
    received.check_answered(&[]);
    assert!(received.acknowledged > 2 * CALLERS, "there was no load");
}

/// Takes keys on one connection until an answer says that it is the last, or there is none.
fn caller(address: SocketAddr, is_told: &AtomicBool) -> Caller<'_> {
    let connect = move |address| {
        let mut client = Client::new(address);
        move |count: u32| {
            let answer = client.take("default", count);
            let is_last = |answer: &Answer| answer.header("connection") == Some("close");
            is_told.store(answer.as_ref().is_ok_and(is_last), Ordering::SeqCst);
            Taken::over_http(answer, &client)
        }
    };
    let caller = Caller::over(connect).at(address);
    caller.until(|taken| !taken.is_keys() || is_told.load(Ordering::SeqCst))
}
