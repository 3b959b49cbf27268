//! Aliases that equal future keys, put through one instance while others hand keys out, to the end
//! of a small space: a key is an alias or handed out, never both.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use keymill_proof::backend::{Kind, skip};
use keymill_proof::{Client, Server, ServerSpec};

use super::put;

const KEYS: usize = 10_000;

#[test]
fn an_alias_is_never_handed_out_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("keymill.db").display());
    check(&url);
}

#[test]
fn an_alias_is_never_handed_out_on_postgres() {
    match Kind::Postgres.start() {
        Ok(backend) => check(&backend.url()),
        Err(missing) => skip(&missing),
    }
}

fn check(store: &str) {
    let folder = tempfile::tempdir().unwrap();
    let start = |name| Server::start(&ServerSpec::keymill_on(store, folder.path(), name));
    let servers = ["d0", "d1", "d2"].map(start);
    put(
        &servers[0],
        "tickets",
        r#"{"kind":"sequential","alphabet":"decimal","length":4,"lease_size_min":5,"lease_size_max":20}"#,
    );
    let addresses = servers.each_ref().map(Server::address);
    let ended = AtomicBool::new(false);
    let (mut handed_out, mut aliases, mut refused) = (Vec::new(), HashSet::new(), 0);
    std::thread::scope(|scope| {
        let takers: Vec<_> = addresses[1..]
            .iter()
            .map(|address| {
                scope.spawn(|| {
                    let mut client = Client::new(*address);
                    let mut keys = Vec::new();
                    loop {
                        let answer = client.take("tickets", 7).unwrap();
                        match answer.status {
                            200 => keys.extend(answer.lines().map(str::to_owned)),
                            409 => return keys,
                            // Another has the last lease for the moment.
                            503 => {}
                            _ => panic!("{}", answer.text()),
                        }
                    }
                })
            })
            .collect();
        let names = scope.spawn(|| {
            let mut client = Client::new(addresses[0]);
            let (mut made, mut refused) = (HashSet::new(), 0);
            for turn in 0..KEYS {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                // All over the space, more and more of them granted already.
                let alias = format!("{:04}", turn * 7919 % KEYS);
                let path = format!("/v1/spaces/tickets/aliases/{alias}");
                let answer = client.request("PUT", &path, &[], b"").unwrap();
                match answer.status {
                    201 => _ = made.insert(alias),
                    409 => refused += 1,
                    503 => {}
                    _ => panic!("{}", answer.text()),
                }
            }
            (made, refused)
        });
        for taker in takers {
            handed_out.extend(taker.join().unwrap());
        }
        ended.store(true, Ordering::SeqCst);
        (aliases, refused) = names.join().unwrap();
    });
    let unique: HashSet<&String> = handed_out.iter().collect();
    assert_eq!(unique.len(), handed_out.len(), "a key was handed out twice");
    let both: Vec<&String> = handed_out.iter().filter(|key| aliases.contains(*key)).collect();
    assert!(both.is_empty(), "aliases that were handed out: {both:?}");
    println!("{} keys, {} aliases, {refused} refused", handed_out.len(), aliases.len());
    assert!(!aliases.is_empty() && refused > 0, "there was no race");
}
