//! Large takes: whole however slowly they are read, and given up when nobody reads them.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Answer, Instance};

/// What a take of the second test asks for, several times on one connection.
const BATCH: usize = 100_000;

#[tokio::test]
async fn a_large_take_that_is_read_slowly_is_whole_and_has_no_key_twice() {
    let instance = Instance::start().await;
    let spaces = [
        ("default", json!({})),
        ("regular", json!({"blocklist": false, "prefix": "ord_", "length": 8, "group": 4})),
        ("integers", json!({"kind": "sequential", "alphabet": "decimal", "length": 0})),
        ("ids", json!({"kind": "snowflake"})),
        ("uuids", json!({"kind": "uuid"})),
        ("noted", json!({"audit": "key"})),
    ];
    for (space, wanted) in spaces {
        let made = instance.put(space, &wanted).await;
        assert!([200, 201].contains(&made.status), "{}", made.body);
        let mut seen = HashSet::new();
        for accept in ["application/json", "text/plain"] {
            let path = format!("/v1/spaces/{space}/keys?count=20000");
            let answer = read_slowly(&instance, &path, accept).await;
            assert_eq!(answer.status, 200, "{space}: {}", answer.body);
            let length = format!("content-length: {}", answer.body.len());
            assert!(answer.head.contains(&length), "{space}: {}", answer.head);
            let keys: Vec<String> = if accept == "text/plain" {
                assert!(answer.body.ends_with('\n'));
                answer.body.lines().map(str::to_owned).collect()
            } else {
                let body = answer.json();
                assert_eq!(body["space"], space);
                serde_json::from_value(body["keys"].clone()).unwrap()
            };
            assert_eq!(keys.len(), 20_000, "{space}");
            for key in keys {
                assert!(seen.insert(key.clone()), "{key} of {space} was handed out twice");
            }
        }
    }
    let script = json!({"kind": "snowflake", "layout": "javascript"});
    assert_eq!(instance.put("script", &script).await.status, 201);
    let path = "/v1/spaces/script/keys?count=5000&numbers=true";
    let body = read_slowly(&instance, path, "*/*").await.json();
    let numbers: HashSet<u64> = serde_json::from_value(body["keys"].clone()).unwrap();
    assert_eq!(numbers.len(), 5_000);
}

#[tokio::test]
async fn what_was_not_written_when_its_client_went_away_is_handed_out_later_and_nothing_twice() {
    let instance = Instance::start().await;
    let tickets = json!({
        "kind": "sequential", "alphabet": "decimal", "length": 9, "blocklist": false,
        "lease_size_min": 1_000_000, "lease_size_max": 1_000_000, "horizon_seconds": 1,
    });
    assert_eq!(instance.put("tickets", &tickets).await.status, 201);
    let space = instance.service.space("tickets").await.unwrap();
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    let request = format!(
        "POST /v1/spaces/tickets/keys?count={BATCH} HTTP/1.1\r\nhost: localhost\r\naccept: text/plain\r\n\r\n"
    );
    // Many times what the buffers of the two sockets take.
    stream.write_all(request.repeat(8).as_bytes()).await.unwrap();
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
    tokio::time::timeout(Duration::from_secs(20), came_back).await.expect("some come back");
    let mut later = Vec::new();
    for _ in 0..3 {
        let path = format!("/v1/spaces/tickets/keys?count={BATCH}");
        let answer = instance.send("POST", &path, "accept: text/plain\r\n", "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        later.extend(answer.body.lines().map(|line| line.parse::<usize>().unwrap()));
    }
    let first = later[0];
    assert_eq!(later, (first..first + 3 * BATCH).collect::<Vec<_>>());
    assert_ne!(first % BATCH, 0, "it was half-way through a take");
    // Whole lines, behind the first head: what the client read is what was handed out before.
    let text = String::from_utf8(read).unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    let whole = &body[..body.rfind('\n').unwrap()];
    let before: Vec<usize> = whole.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(before, (0..before.len()).collect::<Vec<_>>());
    assert!(before.len() < first, "{} {first}", before.len());
}

#[tokio::test]
async fn every_key_of_a_large_take_is_on_record_before_its_status_line() {
    let instance = Instance::start().await;
    assert_eq!(instance.put("noted", &json!({"audit": "key"})).await.status, 201);
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    let request =
        "POST /v1/spaces/noted/keys?count=20000&caller=gone HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut head, mut byte) = (String::new(), [0]);
    while !head.ends_with("\r\n\r\n") {
        stream.read_exact(&mut byte).await.unwrap();
        head.push(char::from(byte[0]));
    }
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    // The client is gone, and its connection reset, before it has read a key.
    stream.set_zero_linger().unwrap();
    drop(stream);
    let mut recorded = HashSet::new();
    let mut path = "/v1/spaces/noted/used?caller=gone&limit=1000".to_owned();
    loop {
        let page = instance.call("GET", &path).await.json();
        for used in page["used"].as_array().unwrap() {
            let key = used["key"].as_str().unwrap().to_owned();
            assert!(recorded.insert(key), "{used} is on record twice");
        }
        let Some(after) = page["next"].as_str() else { break };
        path = format!("/v1/spaces/noted/used?caller=gone&limit=1000&after={after}");
    }
    assert_eq!(recorded.len(), 20_000);
}

/// Reads an answer a little at a time, with pauses.
async fn read_slowly(instance: &Instance, path: &str, accept: &str) -> Answer {
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\naccept: {accept}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 5_000]);
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..count]);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}
