//! Digests from three processes at once: the same input has the same key everywhere, and no two inputs
//! share one, in a space that is more than half full at the end.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use keymill_proof::backend::Kind;
use keymill_proof::{Client, Deployment};

use super::put;

const CALLERS: usize = 24;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

#[test]
fn inputs_have_one_key_each_on_sqlite() {
    check(&Deployment::sqlite(), 60_000, 5);
}

#[test]
fn inputs_have_one_key_each_on_postgres() {
    if let Some(deployment) = Deployment::on_server(Kind::Postgres) {
        check(&deployment, 6_000, 4);
    }
}

/// So many inputs into all decimal keys of a length. One in ten is asked for again, of another process.
fn check(deployment: &Deployment, inputs: usize, length: u32) {
    let asked = inputs + inputs / 10;
    let servers = ["d0", "d1", "d2"].map(|name| deployment.start(name));
    let definition = format!(r#"{{"kind":"digest","alphabet":"decimal","length":{length}}}"#);
    put(&servers[0], "urls", &definition);
    let keys: Mutex<HashMap<usize, String>> = Mutex::default();
    let (turn, tries, made) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let address = servers[caller % servers.len()].address();
            let (keys, turn, tries, made) = (&keys, &turn, &tries, &made);
            scope.spawn(move || {
                let mut client = Client::new(address);
                loop {
                    let number = turn.fetch_add(1, Ordering::Relaxed);
                    if number >= asked {
                        return;
                    }
                    // The second time close behind the first or long after.
                    let again = number % 11 == 10;
                    let input = if again { number * 7919 % inputs } else { number - number / 11 };
                    let body = format!(r#"{{"input":"https://example.com/{input}"}}"#);
                    let path = "/v1/spaces/urls/digests";
                    let answer = client.request("POST", path, &JSON, body.as_bytes()).unwrap();
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    let key = field(answer.text(), "key").to_owned();
                    if answer.text().contains("\"made\":true") {
                        made.fetch_add(1, Ordering::Relaxed);
                        tries.fetch_add(
                            field(answer.text(), "tries").parse().unwrap(),
                            Ordering::Relaxed,
                        );
                    }
                    let mut keys = keys.lock().unwrap();
                    let known = keys.entry(input).or_insert_with(|| key.clone());
                    assert_eq!(*known, key, "input {input} has two keys");
                }
            });
        }
    });
    let time = begin.elapsed();
    let keys = keys.into_inner().unwrap();
    let mut distinct: Vec<&String> = keys.values().collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((keys.len(), distinct.len()), (inputs, inputs), "two inputs share a key");
    let (made, tries) = (made.into_inner(), tries.into_inner());
    assert_eq!(made, inputs, "each is made once");
    let rate = asked as f64 / time.as_secs_f64();
    let each = tries as f64 / made as f64;
    println!(
        "{inputs} inputs into 10^{length} keys: {each:.2} tries a key, {rate:.0} digests a second"
    );
}

/// The value of a field in flat JSON.
fn field<'a>(json: &'a str, name: &str) -> &'a str {
    let (_, rest) = json.split_once(&format!("\"{name}\":")).unwrap();
    rest.split([',', '}']).next().unwrap().trim_matches('"')
}
