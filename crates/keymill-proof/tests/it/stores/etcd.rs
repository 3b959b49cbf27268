//! etcd with three members: it bears the loss of one, and says when it has lost two. And etcd with
//! one: what heartbeats leave in it, who is taken to live, and what is said when it is full.

use std::time::{Duration, Instant};

use keymill_proof::backend::{Backend, Etcd, Member, unless_missing};
use keymill_proof::{Deployment, Received, Server};
use serde_json::Value;

use super::super::{
    eventually, get, gives, has_problem, is_problem, is_well, json, put, take, watchful,
};

/// Signs of life, as etcd is asked for them: from `/keymill/alive/` to `/keymill/alive0`.
const SIGNS: &str =
    r#"{"key":"L2tleW1pbGwvYWxpdmUv","range_end":"L2tleW1pbGwvYWxpdmUw","keys_only":true}"#;
/// How many transactions a member was asked for.
const TRANSACTIONS: &str = "grpc_server_started_total{grpc_method=\"Txn\",\
                            grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}";

#[test]
fn three_members_bear_the_loss_of_one_and_say_when_it_is_two() {
    let Some(mut etcd) = unless_missing(Etcd::start(3)) else { return };
    let deployment = Deployment::on(etcd.url());
    let servers = ["d0", "d1", "d2"].map(|name| watchful(&deployment, name).start());
    put(&servers[0], "small", r#"{"lease_size_min": 50, "lease_size_max": 50}"#);
    put(&servers[0], "large", r#"{"lease_size_min": 100000}"#);
    let mut received = Received::default();
    for server in &servers {
        received.add(&take(server, "large", 1));
    }
    // Leases all the time.
    let work = |received: &mut Received| {
        for turn in 0..60 {
            let server = &servers[turn % 3];
            eventually("keys come", || gives(received, server, "small", 25));
        }
    };
    work(&mut received);

    let follower = (etcd.leader() + 1) % 3;
    etcd.members[follower].kill();
    work(&mut received);
    etcd.members[follower].start();
    etcd.members[follower].await_healthy();

    let leader = etcd.leader();
    etcd.members[leader].kill();
    work(&mut received);
    etcd.members[leader].start();
    etcd.members[leader].await_healthy();
    work(&mut received);

    let leader = etcd.leader();
    etcd.members[leader].kill();
    etcd.members[(leader + 1) % 3].kill();
    for server in &servers {
        eventually("it says that there is no majority", || {
            has_problem(server, "store_unavailable")
        });
        is_problem(&received.drain(server.address(), "small", 5), 503, "no_keys_ready");
        for _ in 0..20 {
            received.add(&take(server, "large", 500));
        }
    }
    let granted = get(&servers[0], "/v1/spaces/small");
    assert_eq!(granted.status, 503, "{}", granted.text());
    etcd.members[leader].start();
    etcd.members[(leader + 1) % 3].start();
    etcd.members.iter().for_each(Member::await_healthy);
    work(&mut received);
    for server in &servers {
        eventually("all is well again", || is_well(server));
    }
    println!("{} keys, none twice", received.len());
}

#[test]
fn heartbeats_of_an_idle_instance_leave_no_history_in_etcd() {
    let Some(etcd) = unless_missing(Etcd::start(1)) else { return };
    let member = &etcd.members[0];
    let deployment = Deployment::on(etcd.url());
    let server = deployment.server("d0").heartbeat(0.02).start();
    let address = server.address().to_string();
    eventually("it is on record", || get(&server, "/v1/instances").text().contains(&address));
    let before = revision(member);
    // No heartbeat takes more than four, so this is fifty of them at least.
    let transactions = member.metric(TRANSACTIONS).unwrap();
    eventually("fifty heartbeats have passed", || {
        member.metric(TRANSACTIONS).is_some_and(|now| now >= transactions + 200.0)
    });
    let written = revision(member) - before;
    assert!(written <= 2, "{written} revisions");
    assert_eq!(signs(member), 1);
    assert_eq!(take(&server, "default", 10).status, 200);
}

#[test]
fn an_instance_whose_sign_of_life_has_ended_goes_on_and_is_seen_again() {
    let Some(etcd) = unless_missing(Etcd::start(1)) else { return };
    let member = &etcd.members[0];
    let deployment = Deployment::on(etcd.url());
    let [mut paused, witness] =
        ["paused", "witness"].map(|name| watchful(&deployment, name).start());
    put(&paused, "links", r#"{"lease_size_min": 10000, "lease_size_max": 10000}"#);
    let mut received = Received::default();
    received.add(&take(&paused, "links", 10));
    eventually("both show that they live", || signs(member) == 2);

    paused.pause();
    let deadline = Instant::now() + Duration::from_secs(60);
    while signs(member) == 2 {
        assert!(Instant::now() < deadline, "the sign of a paused instance does not end");
        std::thread::sleep(Duration::from_millis(100));
    }
    // All that can be told is the last time on record, which does not move.
    let silent = listed(&witness, &paused);
    assert_eq!(listed(&witness, &paused)["seen_at"], silent["seen_at"]);
    assert!(silent["stopped_at"].is_null(), "{silent}");
    // What it holds is its own all the same.
    for _ in 0..20 {
        received.add(&take(&witness, "links", 1_000));
    }
    paused.resume();
    received.add(&take(&paused, "links", 1_000));
    eventually("it shows that it lives again", || signs(member) == 2);
    eventually("it is seen again", || listed(&witness, &paused)["seen_at"] != silent["seen_at"]);
    for _ in 0..20 {
        eventually("keys come", || gives(&mut received, &paused, "links", 1_000));
    }

    // One that stops says so itself, and its sign is gone at once.
    assert!(paused.stop().success());
    assert_eq!(signs(member), 1);
    let stopped = listed(&witness, &paused);
    assert_eq!(stopped["seen_at"], stopped["stopped_at"], "{stopped}");
}

#[test]
fn a_full_etcd_is_refused_and_the_check_says_what_to_do() {
    let Some(etcd) = unless_missing(Etcd::with_quota(16 << 20)) else { return };
    let member = &etcd.members[0];
    let deployment = Deployment::on(etcd.url());
    let check = ["store", "check", "--json"];
    let server = watchful(&deployment, "d0").start();
    put(&server, "small", r#"{"lease_size_min": 50, "lease_size_max": 50}"#);
    put(&server, "large", r#"{"lease_size_min": 100000}"#);
    let mut received = Received::default();
    received.add(&take(&server, "small", 1));
    received.add(&take(&server, "large", 1));
    let safe = deployment.run("cli", &check);
    let found = finding(&safe, "alarms");
    assert!(found["verdict"] == "safe" && found["found"] == "none", "{found}");
    let found = finding(&safe, "database");
    assert!(found["verdict"] == "safe", "{found}");
    assert!(is_said(&found["found"], "the quota is 16.8 MB"), "{found}");

    // A megabyte of zeroes again and again: the history of one key.
    let zeroes = "A".repeat(1_333_332);
    let fill = format!(r#"{{"key":"L2ZpbGw=","value":"{zeroes}"}}"#);
    let mut puts = (0..40).map(|_| member.try_call("/v3/kv/put", &fill));
    assert!(puts.any(|answer| answer.contains("database space exceeded")), "it is never full");
    let alarms = || member.call("/v3/maintenance/alarm", "{}");
    eventually("the alarm is raised", || alarms().contains("NOSPACE"));

    let output = deployment.command("cli", &check);
    assert!(!output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let found = finding(&said, "alarms");
    assert!(found["verdict"] == "unsafe" && is_said(&found["found"], "NOSPACE"), "{found}");
    for remedy in ["etcdctl compact", "etcdctl defrag", "etcdctl alarm disarm"] {
        assert!(is_said(&found["wanted"], remedy), "{remedy} is not in {found}");
    }
    let found = finding(&said, "database");
    assert!(found["verdict"] == "warning", "{found}");
    assert!(is_said(&found["wanted"], "--auto-compaction-retention"), "{found}");
    let refusal = deployment.run_in_vain("cli", &["take"]);
    assert!(refusal.contains("NOSPACE"), "{refusal}");
    // What is leased is served all the same.
    assert_eq!(received.drain(server.address(), "small", 5).status, 503);
    received.add(&take(&server, "large", 1_000));

    let compact = format!(r#"{{"revision":"{}","physical":true}}"#, revision(member));
    member.call("/v3/kv/compaction", &compact);
    member.call("/v3/maintenance/defragment", "{}");
    let raised = body(&alarms());
    let raised_by = raised["alarms"][0]["memberID"].as_str().unwrap();
    let disarm = r#"{"action":"DEACTIVATE","alarm":"NOSPACE","memberID":""#;
    member.call("/v3/maintenance/alarm", &format!(r#"{disarm}{raised_by}"}}"#));
    let safe = deployment.run("cli", &check);
    assert!(!safe.contains("\"unsafe\""), "{safe}");
    eventually("keys come again", || gives(&mut received, &server, "small", 5));
}

/// The body of an answer of etcd's in JSON.
#[track_caller]
fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// The revision that etcd has come to.
fn revision(member: &Member) -> u64 {
    let answer = body(&member.call("/v3/kv/range", SIGNS));
    answer["header"]["revision"].as_str().unwrap().parse().unwrap()
}

/// How many instances show that they live.
fn signs(member: &Member) -> usize {
    body(&member.call("/v3/kv/range", SIGNS))["kvs"].as_array().map_or(0, Vec::len)
}

/// An instance as another one lists it.
#[track_caller]
fn listed(witness: &Server, of: &Server) -> Value {
    let all = json(&get(witness, "/v1/instances"));
    let mut instances = all["instances"].as_array().unwrap().iter();
    instances.find(|instance| instance["pid"] == of.pid()).unwrap().clone()
}

/// What a check in JSON says of one setting.
#[track_caller]
fn finding(check: &str, setting: &str) -> Value {
    let findings: Vec<Value> = serde_json::from_str(check).unwrap();
    findings.into_iter().find(|finding| finding["setting"] == setting).unwrap()
}

fn is_said(text: &Value, part: &str) -> bool {
    text.as_str().is_some_and(|text| text.contains(part))
}
