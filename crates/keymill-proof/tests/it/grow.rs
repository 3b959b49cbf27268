//! A keyspace that grows while three instances hand out its keys: takes move on to the longer ones
//! without an error, no key comes twice, and keys of both generations explain themselves.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use keymill_proof::backend::{Kind, skip};
use keymill_proof::{Client, Server, ServerSpec, binary};

use super::{get, put, take};

/// How many keys of four characters there are, and how many of them are left at the start: enough
/// for the growth to come before the end, few enough to get there soon.
const SHORT: u64 = 36_u64.pow(4);
const LEFT: u64 = 400_000;
/// How many longer keys each instance must have handed out.
const LONG: usize = 50_000;

#[test]
fn takes_move_on_to_longer_keys_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("keymill.db").display());
    check(&url);
}

#[test]
fn takes_move_on_to_longer_keys_on_postgres() {
    match Kind::Postgres.start() {
        Ok(backend) => check(&backend.url()),
        Err(missing) => skip(&missing),
    }
}

fn check(store: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let start = |name| Server::start(&ServerSpec::keymill_on(store, folder, name));
    let servers = ["d0", "d1", "d2"].map(start);
    let start = SHORT - LEFT;
    let definition =
        format!(r#"{{"alphabet": "base36", "length": 4, "start": {start}, "blocklist": false}}"#);
    put(&servers[0], "links", &definition);
    let alias = "Sales";
    let path = format!("/v1/spaces/links/aliases/{alias}");
    let made = Client::new(servers[0].address()).request("PUT", &path, &[], b"").unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    let grown = AtomicBool::new(false);
    let taken: Vec<Vec<String>> = std::thread::scope(|scope| {
        let takers: Vec<_> = servers
            .iter()
            .map(|server| {
                let (address, grown) = (server.address(), &grown);
                scope.spawn(move || take_past_the_seam(address, grown))
            })
            .collect();
        grow(store, &folder.join("d0"));
        grown.store(true, Ordering::SeqCst);
        takers.into_iter().map(|taker| taker.join().unwrap()).collect()
    });
    let mut unique = HashSet::new();
    let (mut short, mut long) = (0, 0);
    for key in taken.iter().flatten() {
        assert!(unique.insert(key.as_str()), "{key} was handed out twice");
        match key.len() {
            4 => short += 1,
            5 => long += 1,
            _ => panic!("{key} is of no generation"),
        }
    }
    assert!(!unique.contains("sales"), "the alias was handed out");
    println!("{short} short keys of {LEFT} left, {long} longer ones, none twice and no error");
    assert!(short > 0 && short <= LEFT);
    for server in &servers {
        for key in [taken[0].first().unwrap(), taken[0].last().unwrap()] {
            let told = get(server, &format!("/v1/spaces/links/keys/{key}"));
            assert!(told.text().contains("\"holder\""), "{key}: {}", told.text());
        }
        let told = get(server, &format!("/v1/spaces/links/keys/{alias}"));
        assert!(told.text().contains("\"state\":\"alias\""), "{}", told.text());
    }
    assert!(get(&servers[1], "/v1/spaces/links").text().contains("\"grown\":[5]"));
    assert_eq!(take(&servers[2], "links", 1).status, 200);
}

/// Takes one by one until the keyspace has grown, then many at once until enough longer keys came.
/// Every answer must be keys.
fn take_past_the_seam(address: SocketAddr, grown: &AtomicBool) -> Vec<String> {
    let mut client = Client::new(address);
    let (mut keys, mut long) = (Vec::new(), 0);
    while long < LONG {
        let count = if grown.load(Ordering::SeqCst) { 2_000 } else { 1 };
        let answer = client.take("links", count).unwrap();
        assert_eq!(answer.status, 200, "after {} keys: {}", keys.len(), answer.text());
        long += answer.lines().filter(|key| key.len() == 5).count();
        keys.extend(answer.lines().map(str::to_owned));
    }
    keys
}

#[track_caller]
fn grow(store: &str, data_dir: &Path) {
    let output = Command::new(binary("keymill"))
        .args(["space", "grow", "links", "--length", "5", "--store", store, "--data-dir"])
        .arg(data_dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
