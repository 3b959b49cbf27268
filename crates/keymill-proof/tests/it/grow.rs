//! A keyspace that grows while three instances hand out its keys: takes move on to the longer ones
//! without an error, no key comes twice, and keys of both generations explain themselves.

use std::sync::atomic::{AtomicBool, Ordering};

use keymill_proof::backend::Kind;
use keymill_proof::{Caller, Client, Deployment, Fleet, Load, Taken};

use super::{get, put, take};

/// How many keys of four characters there are, and how many of them are left at the start: enough
/// for the growth to come before the end, few enough to get there soon.
const SHORT: u64 = 36_u64.pow(4);
const LEFT: u64 = 400_000;
/// How many longer keys each instance must have handed out.
const LONG: usize = 50_000;

#[test]
fn takes_move_on_to_longer_keys_on_sqlite() {
    check(&Deployment::sqlite());
}

#[test]
fn takes_move_on_to_longer_keys_on_postgres() {
    if let Some(deployment) = Deployment::on_server(Kind::Postgres) {
        check(&deployment);
    }
}

fn check(deployment: &Deployment) {
    let fleet = Fleet::start(["d0", "d1", "d2"].map(|name| deployment.server(name)));
    let start = SHORT - LEFT;
    let definition =
        format!(r#"{{"alphabet": "base36", "length": 4, "start": {start}, "blocklist": false}}"#);
    put(&fleet.hold(0), "links", &definition);
    let alias = "Sales";
    let path = format!("/v1/spaces/links/aliases/{alias}");
    let made = Client::new(fleet.hold(0).address()).request("PUT", &path, &[], b"").unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    let is_grown = AtomicBool::new(false);
    let callers = (0..fleet.len()).map(|server| past_the_seam(server, &is_grown));
    let received = Load::of(callers).run(&fleet, |run| {
        deployment.run("d0", &["space", "grow", "links", "--length", "5"]);
        is_grown.store(true, Ordering::SeqCst);
        run.wait_for_callers();
    });
    received.check_unique("past the seam");
    received.check_answered(&[]);
    let of_length = |length| received.keys().filter(move |key| key.len() == length);
    let (short, long) = (of_length(4).count(), of_length(5).count());
    assert_eq!(short + long, received.len(), "there are keys of no generation");
    assert!(!received.contains("sales"), "the alias was handed out");
    println!("{short} short keys of {LEFT} left, {long} longer ones");
    assert!(short > 0 && short as u64 <= LEFT);
    for server in fleet.each() {
        for key in [of_length(4).next().unwrap(), of_length(5).next().unwrap()] {
            let told = get(&server, &format!("/v1/spaces/links/keys/{key}"));
            assert!(told.text().contains("\"holder\""), "{key}: {}", told.text());
        }
        let told = get(&server, &format!("/v1/spaces/links/keys/{alias}"));
        assert!(told.text().contains("\"state\":\"alias\""), "{}", told.text());
    }
    assert!(get(&fleet.hold(1), "/v1/spaces/links").text().contains("\"grown\":[5]"));
    assert_eq!(take(&fleet.hold(2), "links", 1).status, 200);
}

/// Takes one by one until the keyspace has grown, then many at once until enough longer keys came.
fn past_the_seam(server: usize, is_grown: &AtomicBool) -> Caller<'_> {
    let count = |_: &mut _| if is_grown.load(Ordering::SeqCst) { 2_000 } else { 1 };
    let mut long = 0;
    Caller::http("links").of(server).takes_by(count).until(move |taken| {
        if let Taken::Keys(keys) = taken {
            long += keys.iter().filter(|key| key.len() == 5).count();
        }
        long >= LONG || !taken.is_keys()
    })
}
