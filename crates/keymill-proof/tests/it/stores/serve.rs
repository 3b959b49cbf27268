//! What a user of each store meets first, and what happens while the store is away.

use keymill_proof::backend::{Kind, unless_missing};
use keymill_proof::{Answer, Deployment, Fleet, Received};

use super::super::{eventually, get, gives, has_problem, is_problem, is_well, put, take, watchful};

macro_rules! on_every_server {
    ($($case:ident)*) => {
        $(mod $case {
            use super::*;

            #[test]
            fn postgres() {
                super::$case(Kind::Postgres);
            }

            #[test]
            fn mysql() {
                super::$case(Kind::MariaDb);
            }

            #[test]
            fn mysql9() {
                super::$case(Kind::Mysql);
            }

            #[test]
            fn redis() {
                super::$case(Kind::Redis);
            }

            #[test]
            fn etcd() {
                super::$case(Kind::Etcd);
            }
        })*
    };
}
pub(super) use on_every_server;

on_every_server! {
    an_empty_database_needs_no_other_step
    an_empty_store_is_not_taken_for_a_new_one_where_the_secret_is_given
    takes_go_on_while_the_store_is_away
}

fn an_empty_database_needs_no_other_step(kind: Kind) {
    let Some(deployment) = Deployment::on_server(kind) else { return };
    // Ten at once: one of them makes the schema, all of them find it.
    let specs = (0..10).map(|number| watchful(&deployment, &format!("d{number}")));
    let fleet = Fleet::start_at_once(specs);
    let mut received = Received::default();
    for server in fleet.each() {
        received.add(&take(&server, "default", 100));
    }
    let made = fleet.each().filter(|it| it.log().contains("created)")).count();
    assert_eq!(made, 1, "one instance says that it made the store");
    fleet.each().for_each(|mut server| server.stop());
    let check = deployment.run("d0", &["store", "check"]);
    assert!(check.contains("VERDICT") && !check.contains("UNSAFE"), "{check}");
    let json = deployment.run("d0", &["store", "check", "--json"]);
    let findings: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert!(findings.iter().all(|it| it["verdict"] == "safe" || it["verdict"] == "warning"));
    deployment.run("d0", &["store", "migrate"]);
    let key = deployment.run("d0", &["take"]);
    let explained = deployment.run("d0", &["explain", "default", key.trim()]);
    assert!(explained.contains("issued:"), "{explained}");
    received.add_key(key.trim());
}

/// The server was emptied, or is not the one that was meant: with the same secret, all keys would come
/// again.
fn an_empty_store_is_not_taken_for_a_new_one_where_the_secret_is_given(kind: Kind) {
    let Some(deployment) = Deployment::on_server(kind) else { return };
    let spec = |data_dir: &str| {
        let spec = watchful(&deployment, data_dir);
        spec.env("KEYMILL_SECRET", "a secret from outside, as a container has it")
    };
    let refusal = spec("d0").try_start().unwrap_err();
    assert!(refusal.contains("pass --new-store if no key of it was ever"), "{refusal}");
    let mut received = Received::default();
    let mut server = spec("d0").arg("--new-store").start();
    put(&server, "default", "{}");
    received.add(&take(&server, "default", 100));
    assert!(server.stop().success());
    // From then on it is there.
    let server = spec("d1").start();
    received.add(&take(&server, "default", 100));
}

fn takes_go_on_while_the_store_is_away(kind: Kind) {
    let Some(mut backend) = unless_missing(kind.start()) else { return };
    let deployment = Deployment::on(backend.url());
    let server = watchful(&deployment, "d0").start();
    put(&server, "busy", r#"{"lease_size_min": 100000}"#);
    put(&server, "dry", r#"{"lease_size_min": 10, "lease_size_max": 10}"#);
    let mut received = Received::default();
    received.add(&take(&server, "busy", 1));
    received.add(&take(&server, "dry", 1));
    backend.kill();
    for _ in 0..100 {
        received.add(&take(&server, "busy", 500));
    }
    let refusal = received.drain(server.address(), "dry", 5);
    is_problem(&refusal, 503, "no_keys_ready");
    eventually("it says so", || has_problem(&server, "store_unavailable"));
    // A keyspace that this instance has not met, so that the store has to be asked for it.
    let unmet = take(&server, "unmet", 1);
    is_problem(&unmet, 503, "store_unavailable");
    for answer in [refusal, unmet, get(&server, "/readyz")] {
        tells_nothing_of(&backend.url(), &answer);
    }
    backend.start();
    eventually("the dry space has keys again", || gives(&mut received, &server, "dry", 1));
    eventually("all is well again", || is_well(&server));
    for _ in 0..400 {
        received.add(&take(&server, "busy", 500));
    }
}

/// Anybody may ask, so no answer says where the store is, or what its driver said.
#[track_caller]
fn tells_nothing_of(store: &str, answer: &Answer) {
    let mut told: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
    // Random digits, which may be those of a port.
    told.as_object_mut().unwrap().remove("request_id");
    let told = told.to_string();
    let (_, rest) = store.split_once("//").unwrap();
    let authority = rest.split(['/', '?']).next().unwrap();
    let hosts = authority.rsplit('@').next().unwrap();
    for host in hosts.split(',') {
        let (host, port) = host.rsplit_once(':').unwrap();
        for private in [host, port, "os error"] {
            assert!(!told.contains(private), "{private} is in {told}");
        }
    }
}
