//! Bytes that nobody would send, against a true server: it answers or closes, serves others, and does not grow.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{Client, PATIENCE, command};
use super::{Server, Value};
use crate::cli::Place;

#[test]
fn whatever_is_sent_is_answered_in_the_protocol_or_ends_and_others_are_served() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let server = runtime.block_on(Server::start());
    let mut runner = TestRunner::new(Config::with_cases(400));
    let strategy = vec(piece(), 1..6);
    let ran = runner.run(&strategy, |pieces| {
        runtime.block_on(async {
            let mut client = server.connect().await;
            for piece in &pieces {
                // It may be closed already.
                if client.stream.write_all(piece).await.is_err() {
                    break;
                }
            }
            let _ = client.stream.shutdown().await;
            // Each is a whole answer, or it panics.
            let answers = timeout(PATIENCE, client.rest()).await.expect("it ends");
            let is_refusal =
                |it: &Value| matches!(it, Value::Error(it) if it.starts_with("ERR Protocol error"));
            let refusals = answers.iter().filter(|it| is_refusal(it)).count();
            let is_last = answers.last().is_some_and(is_refusal);
            assert!(refusals == 0 || (refusals == 1 && is_last), "{answers:?}");
            assert_eq!(server.connect().await.ask(&["PING"]).await, Value::word("PONG"));
        });
        Ok(())
    });
    ran.unwrap();
}

/// Commands, almost commands, and anything else.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("SPOP"),
        Just("INCR"),
        Just("MULTI"),
        Just("EXEC"),
        Just("DISCARD"),
        Just("HELLO"),
        Just("AUTH"),
        Just("CLIENT"),
        Just("COMMAND"),
        Just("default"),
        Just("3"),
        Just("-1"),
        Just("SISMEMBER"),
        Just("SETNAME"),
        Just("RESET"),
        Just("CONFIG"),
        Just("GET"),
        Just(""),
    ];
    let text = prop_oneof![4 => word.prop_map(str::to_owned), 1 => ".{0,30}"];
    let whole = vec(text, 1..6)
        .prop_map(|parts| command(&parts.iter().map(String::as_str).collect::<Vec<_>>()));
    let broken = (whole.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(
        |(mut bytes, place, byte)| {
            let place = place.index(bytes.len());
            bytes[place] = byte;
            bytes
        },
    );
    let cut = (whole.clone(), any::<prop::sample::Index>()).prop_map(|(mut bytes, place)| {
        bytes.truncate(place.index(bytes.len()));
        bytes
    });
    prop_oneof![
        4 => whole,
        2 => broken,
        1 => cut,
        1 => vec(any::<u8>(), 0..300),
        1 => "[*$+:\\-0-9\r\n]{0,60}".prop_map(String::into_bytes),
    ]
}

#[test]
fn clients_that_begin_commands_and_batches_and_end_none_take_bounded_memory() {
    let server = Process::start(&[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clients = 300;
    let before = runtime.block_on(async {
        let mut client = server.connect().await;
        client.settled(&["SPOP", "default", "100000"]).await;
        server.memory()
    });
    let held = runtime.block_on(async {
        let mut held = Vec::new();
        for _ in 0..clients {
            let mut client = server.connect().await;
            assert_eq!(client.ask(&["MULTI"]).await, Value::word("OK"));
            let long = "x".repeat(4_000);
            for _ in 0..8 {
                assert_eq!(client.ask(&["ECHO", &long]).await, Value::word("QUEUED"));
            }
            // The beginning of a command that is as long as one may be.
            let mut part = format!("*2\r\n$4096\r\n{}\r\n$4000\r\n", "x".repeat(4_096));
            part += &"x".repeat(3_000);
            client.send(part.as_bytes()).await;
            held.push(client);
        }
        // All of it was read once the last is answered.
        assert_eq!(server.connect().await.ask(&["PING"]).await, Value::word("PONG"));
        held
    });
    let grown = server.memory().saturating_sub(before);
    assert!(grown < clients * (72 << 10) + (24 << 20), "{grown} bytes for {clients} clients");
    drop(held);
}

/// A server of its own, as people start it.
pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) place: Place,
}

impl Process {
    /// With these flags besides its addresses.
    pub(super) fn start(flags: &[&str]) -> Process {
        Process::start_in(Place::new(), flags)
    }

    pub(super) fn start_in(place: Place, flags: &[&str]) -> Process {
        let all = ["serve", "--listen", "127.0.0.1:0", "--redis-listen", "127.0.0.1:0"];
        let mut serve = place.command(&[&all, flags].concat());
        let mut child = serve.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines.find_map(|line| {
            let line = line.unwrap();
            Some(line.trim().strip_prefix("redis ")?.trim().strip_prefix("redis://")?.to_owned())
        });
        let address = url.expect("the greeting says where it is").parse().unwrap();
        // What it says later is read, too, so that it is never kept waiting.
        std::thread::spawn(move || lines.for_each(drop));
        Process { child, address, place }
    }

    async fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// How many bytes it has in memory.
    fn memory(&self) -> usize {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
