//! Large takes: whole however slowly they are read, given up when nobody reads them, and never in the way of others.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use keymill::server::ServerLimits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{PATIENCE, command};
use super::{Server, Value};

const BATCH: usize = 100_000;

#[tokio::test]
async fn a_large_take_is_whole_and_has_no_key_twice() {
    let server = Server::start().await;
    for (space, wanted) in [
        ("links", json!({})),
        ("regular", json!({"blocklist": false})),
        ("uuids", json!({"kind": "uuid"})),
        ("ids", json!({"kind": "snowflake"})),
        ("noted", json!({"audit": "key"})),
    ] {
        assert_eq!(server.instance.put(space, &wanted).await.status, 201);
        for mut client in [server.connect().await, server.connect3().await] {
            let keys = client.settled(&["SPOP", space, "20000"]).await.keys();
            assert_eq!(keys.len(), 20_000, "{space}");
            assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 20_000, "{space}");
            // What follows it is answered behind it.
            assert_eq!(client.ask(&["PING"]).await, Value::word("PONG"));
        }
    }
}

#[tokio::test]
async fn what_was_not_written_when_its_client_went_away_is_handed_out_later_and_nothing_twice() {
    let server = Server::start().await;
    let tickets = json!({
        "kind": "sequential", "alphabet": "decimal", "length": 0, "blocklist": false,
        "lease_size_min": 1_000_000, "lease_size_max": 1_000_000, "horizon_seconds": 1,
    });
    assert_eq!(server.instance.put("tickets", &tickets).await.status, 201);
    let space = server.instance.service.space("tickets").await.unwrap();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // Many times what the buffers of the two sockets take.
    let take = command(&["SPOP", "tickets", &BATCH.to_string()]);
    stream.write_all(&take.repeat(8)).await.unwrap();
    let mut read = vec![0; 100_000];
    stream.read_exact(&mut read).await.unwrap();
    let mut left = space.at_hand();
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        if std::mem::replace(&mut left, space.at_hand()) == space.at_hand() {
            break;
        }
    }
    drop(stream);
    let came_back = async {
        while space.at_hand() == left {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, came_back).await.expect("some come back");
    let mut later: Vec<usize> = Vec::new();
    let mut client = server.connect().await;
    for _ in 0..3 {
        let keys = client.settled(&["SPOP", "tickets", &BATCH.to_string()]).await.keys();
        later.extend(keys.iter().map(|key| key.parse::<usize>().unwrap()));
    }
    let first = later[0];
    assert_eq!(later, (first..first + 3 * BATCH).collect::<Vec<_>>());
    assert_ne!(first % BATCH, 0, "it was half-way through a take");
    // Whole keys, behind the head: what the client read is what was handed out before.
    let text = String::from_utf8(read).unwrap();
    let whole = &text[..text.rfind("\r\n$").unwrap()];
    let before = whole.lines().skip(2).step_by(2).map(|line| line.parse::<usize>().unwrap());
    let before: Vec<usize> = before.collect();
    assert_eq!(before, (0..before.len()).collect::<Vec<_>>());
    assert!(before.len() < first, "{} {first}", before.len());
}

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_place() {
    let limits = ServerLimits {
        connections_max: 1,
        idle_time_max: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    for parts in [&["SPOP", "default", "100000"][..], &["SPOP", "default"], &["COMMAND"]] {
        let server = Server::start_with(limits).await;
        let mut deaf = TcpStream::connect(server.address).await.unwrap();
        // It sends as much as it can, and reads nothing.
        let sent = command(parts).repeat(1_000);
        let send = async { while deaf.write_all(&sent).await.is_ok() {} };
        let sending = tokio::time::timeout(PATIENCE, send);
        sending.await.expect("it is stopped, and then cut off");
        let other = async {
            loop {
                let mut client = server.connect().await;
                client.send(&command(&["PING"])).await;
                if client.next_or_end().await == Some(Value::word("PONG")) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, other).await.expect("the place is free again");
    }
}

/// One thread serves them all.
#[tokio::test]
async fn large_takes_and_long_pipelines_do_not_hold_up_small_ones() {
    let server = Server::start().await;
    server.warm("default").await;
    let mut others = Vec::new();
    for parts in
        [&["SPOP", "default", "100000"][..], &["SPOP", "default", "255"], &["SPOP", "default"]]
    {
        for _ in 0..4 {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let sent = command(parts).repeat(500);
            others.push(tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let mut bytes = vec![0; 64 << 10];
                let send = async { while write.write_all(&sent).await.is_ok() {} };
                let receive = async { while read.read(&mut bytes).await.is_ok_and(|it| it > 0) {} };
                tokio::join!(send, receive);
            }));
        }
    }
    let mut client = server.connect().await;
    let mut times = Vec::new();
    for _ in 0..200 {
        let began = Instant::now();
        client.settled(&["SPOP", "default"]).await;
        times.push(began.elapsed());
    }
    others.iter().for_each(tokio::task::JoinHandle::abort);
    times.sort_unstable();
    let median = times[times.len() / 2];
    assert!(median < Duration::from_millis(100), "{median:?}");
}
