//! Restarts under load: nobody who asks goes without an answer, and nobody gets a key twice.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use keymill_proof::backend::{Nginx, skip};
use keymill_proof::{Client, Server, ServerSpec};

use super::Received;

/// How many callers there are, each with a connection of its own.
const CALLERS: usize = 32;

/// What one caller met.
#[derive(Default)]
struct Met {
    keys: Vec<String>,
    failures: Vec<String>,
}

/// Ends the load when it is dropped, by a panic too: the callers are waited for.
struct Load<'a> {
    done: &'a AtomicBool,
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_rolling_restart_behind_nginx_fails_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let specs = ["d0", "d1"].map(|name| ServerSpec::keymill(folder.path(), name));
    let mut servers = specs.each_ref().map(Server::start);
    let addresses = servers.each_ref().map(Server::address);
    let nginx = match Nginx::start(&addresses) {
        Ok(nginx) => nginx,
        Err(missing) => return skip(&missing),
    };
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let met: Vec<Met> = std::thread::scope(|scope| {
        let caller = || call(nginx.address(), &done, &answered);
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
        let load = Load { done: &done };
        std::thread::sleep(Duration::from_millis(500));
        for _ in 0..2 {
            for ((server, spec), address) in servers.iter_mut().zip(&specs).zip(addresses) {
                let before = answered.load(Ordering::Relaxed);
                assert!(server.stop().success(), "{}", server.log());
                *server = Server::start(&at(spec, address));
                let during = answered.load(Ordering::Relaxed) - before;
                assert!(during > CALLERS, "only {during} answers while {address} was restarted");
                std::thread::sleep(Duration::from_millis(500));
            }
        }
        drop(load);
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let failures: Vec<&String> = met.iter().flat_map(|met| &met.failures).collect();
    let mut received = Received::default();
    for key in met.iter().flat_map(|met| &met.keys) {
        assert!(received.keys.insert(key.clone()), "{key} was handed out twice");
    }
    eprintln!("4 restarts: {} answers, {} failures", received.keys.len(), failures.len());
    assert!(failures.is_empty(), "{failures:#?}\n{}", nginx.log());
}

#[test]
fn a_stop_answers_every_request_that_was_sent_on_an_open_connection() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(&ServerSpec::keymill(folder.path(), "d0"));
    let address = server.address();
    let answered: usize = std::thread::scope(|scope| {
        let callers: Vec<_> =
            (0..2 * CALLERS).map(|_| scope.spawn(|| call_until_told(address))).collect();
        std::thread::sleep(Duration::from_millis(500));
        assert!(server.stop().success(), "{}", server.log());
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    eprintln!("{answered} answers on {} connections, none lost", 2 * CALLERS);
    assert!(answered > 2 * CALLERS, "there was no load");
}

/// Takes keys one by one until it is done, and counts the answers as they come.
fn call(address: SocketAddr, done: &AtomicBool, answered: &AtomicUsize) -> Met {
    let mut client = Client::new(address);
    let mut met = Met::default();
    while !done.load(Ordering::Relaxed) {
        match client.take("default", 1) {
            Ok(answer) if answer.status == 200 => {
                met.keys.extend(answer.lines().map(str::to_owned));
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Ok(answer) => met.failures.push(format!("{}: {}", answer.status, answer.text())),
            Err(error) => met.failures.push(error.to_string()),
        }
    }
    met
}

/// Takes keys on one connection until an answer says that it is the last, and counts them. Fails
/// when a request goes unanswered.
fn call_until_told(address: SocketAddr) -> usize {
    let mut client = Client::new(address);
    for answered in 1.. {
        let answer = client.take("default", 1).expect("an open connection answers");
        assert_eq!(answer.status, 200, "{}", answer.text());
        if answer.header("connection") == Some("close") {
            return answered;
        }
    }
    unreachable!("it stops some time")
}

/// The same server at an address that is known.
fn at(spec: &ServerSpec, address: SocketAddr) -> ServerSpec {
    let mut spec = spec.clone();
    let listen = spec.args.iter_mut().find(|arg| *arg == "127.0.0.1:0").unwrap();
    *listen = address.to_string();
    spec
}
