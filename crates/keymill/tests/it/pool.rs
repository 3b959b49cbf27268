//! Pools, the record of single keys and digests, as callers over HTTP and people at a terminal meet
//! them.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::cli::{Place, stderr};
use crate::http::Instance;

#[tokio::test]
async fn an_empty_pool_says_how_to_fill_it_and_a_filled_one_gives_each_key_once() {
    let instance = Instance::start().await;
    assert_eq!(instance.put("pool", &json!({"kind": "pooled"})).await.status, 201);
    let take = async |count: u32| {
        instance.call("POST", &format!("/v1/spaces/pool/keys?count={count}")).await
    };
    take(1).await.is_problem(409, "exhausted", "keymill pool fill pool");
    let filled = instance
        .service
        .fill_pool("pool", keymill_engine::operations::Filling::Add(1_000), |_, _| {})
        .await
        .unwrap();
    assert_eq!(filled, 1_000);
    assert_eq!(instance.call("GET", "/v1/spaces/pool").await.json()["available"], 1_000);
    // Found at the next look, which a heartbeat would bring.
    instance.service.announce("here".to_owned());
    let mut keys = HashSet::new();
    while keys.len() < 1_000 {
        let answer = take(70).await;
        if answer.status == 200 {
            for key in answer.json()["keys"].as_array().unwrap() {
                assert!(keys.insert(key.as_str().unwrap().to_owned()), "{key} came twice");
            }
        }
    }
    take(1).await.is_problem(409, "exhausted", "is empty");
    let key = keys.iter().next().unwrap();
    let known = instance.call("GET", &format!("/v1/spaces/pool/keys/{key}")).await.json();
    assert_eq!(known["state"], "issued");
    assert!(known["used"]["used_at"].is_string(), "{known}");
}

#[tokio::test]
async fn a_pool_below_its_low_water_fills_itself() {
    let instance = Instance::start().await;
    let spec = json!({"kind": "pooled", "low_water": 500, "lease_size_min": 10});
    instance.put("pool", &spec).await;
    let mut keys = HashSet::new();
    for _ in 0..40 {
        let answer = instance.call("POST", "/v1/spaces/pool/keys?count=50").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        for key in answer.json()["keys"].as_array().unwrap() {
            assert!(keys.insert(key.as_str().unwrap().to_owned()), "{key} came twice");
        }
    }
    assert_eq!(keys.len(), 2_000);
}

#[tokio::test]
async fn own_keys_are_imported_line_by_line_and_handed_out() {
    let instance = Instance::start().await;
    instance.put("pool", &json!({"kind": "pooled", "alphabet": "decimal"})).await;
    // Longer than a request's body may be.
    let mut body = String::from("11\n22\n\nab\n11\n33\r\n");
    for number in 0..2_000 {
        body += &format!("9000{number}\n");
    }
    body += "1111111111111111111111111111111111111111111111111111111111111111111111\n44";
    assert!(body.len() > 8_192);
    let plain = "content-type: text/plain\r\n";
    let report = instance.send("POST", "/v1/spaces/pool/pool", plain, &body).await.json();
    assert_eq!((&report["imported"], &report["refused_count"]), (&json!(2_004), &json!(3)));
    let lines: Vec<(&Value, &str)> = report["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refused| (&refused["line"], refused["reason"].as_str().unwrap()))
        .collect();
    // The third is blank.
    let expected = [(4, "not in the alphabet"), (5, "repeats line 1"), (2_007, "64")];
    for ((line, reason), (number, says)) in lines.iter().zip(expected) {
        assert_eq!(**line, json!(number), "{lines:?}");
        assert!(reason.contains(says), "{reason}");
    }
    let again = instance.send("POST", "/v1/spaces/pool/pool", plain, "11\n22\n").await.json();
    assert_eq!((&again["imported"], &again["already_there"]), (&json!(0), &json!(2)));
    let state = async |key: &str| {
        let known = instance.call("GET", &format!("/v1/spaces/pool/keys/{key}")).await.json();
        known["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state("33").await, "available");
    let answer = loop {
        let answer = instance.call("POST", "/v1/spaces/pool/keys?count=2004").await.json();
        // A busy machine may need longer than a caller waits.
        if answer["code"] != "no_keys_ready" {
            break answer;
        }
    };
    let keys: HashSet<&str> =
        answer["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    assert!(["11", "22", "33", "44"].iter().all(|own| keys.contains(own)), "{answer}");
    assert_eq!(state("33").await, "issued");
    let wrong = instance.send("POST", "/v1/spaces/default/pool", plain, "a\n").await;
    wrong.is_problem(409, "wrong_kind", "has no pool");
}

/// Otherwise a key that is in use elsewhere would be handed out, because the imports came in the wrong order.
#[tokio::test]
async fn a_key_in_use_is_taken_out_of_the_pool() {
    let instance = Instance::start().await;
    let plain = "content-type: text/plain\r\n";
    for audit in ["batch", "key"] {
        instance.put(audit, &json!({"kind": "pooled", "audit": audit})).await;
        // The first two could be generated, and the third could not.
        let own = "cou0001\ncou0002\nsummer2026\ncou0003\n";
        let path = format!("/v1/spaces/{audit}/pool");
        let report = instance.send("POST", &path, plain, own).await.json();
        assert_eq!(report["imported"], 4, "{report}");
        let path = format!("/v1/spaces/{audit}/used-keys");
        let used = "cou0001\nsummer2026\ncou0009\n";
        let report = instance.send("POST", &path, plain, used).await.json();
        assert_eq!(
            (&report["imported"], &report["refused_count"]),
            (&json!(3), &json!(0)),
            "{report}"
        );
        let again = instance.send("POST", &path, plain, used).await.json();
        assert_eq!(
            (&again["imported"], &again["already_there"]),
            (&json!(0), &json!(3)),
            "{again}"
        );
        let space = instance.call("GET", &format!("/v1/spaces/{audit}")).await.json();
        assert_eq!(space["available"], 2, "{space}");
        let mut keys = Vec::new();
        let end = loop {
            let answer = instance.call("POST", &format!("/v1/spaces/{audit}/keys")).await;
            match answer.status {
                200 => keys.push(answer.json()["keys"][0].as_str().unwrap().to_owned()),
                _ => break answer,
            }
        };
        end.is_problem(409, "exhausted", "is empty");
        keys.sort_unstable();
        assert_eq!(keys, ["cou0002", "cou0003"]);
        // What was handed out is not taken back.
        let issued = instance.send("POST", &path, plain, "cou0002\n").await.json();
        assert_eq!(
            (&issued["imported"], &issued["refused_count"]),
            (&json!(0), &json!(1)),
            "{issued}"
        );
    }
}

#[tokio::test]
async fn with_audit_key_every_key_is_on_record_with_its_caller() {
    let instance = Instance::start().await;
    for (space, spec) in [
        ("pooled", json!({"kind": "pooled", "audit": "key", "low_water": 100})),
        ("shuffled", json!({"audit": "key"})),
        ("tickets", json!({"kind": "sequential", "audit": "key"})),
    ] {
        assert_eq!(instance.put(space, &spec).await.status, 201);
        let mut given = HashSet::new();
        for (caller, count) in [("shop", 30), ("a%26b", 3), ("", 20)] {
            let path = format!("/v1/spaces/{space}/keys?count={count}&caller={caller}");
            let answer = instance.call("POST", &path).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
            for key in answer.json()["keys"].as_array().unwrap() {
                assert!(given.insert(key.as_str().unwrap().to_owned()));
            }
        }
        // In pages, without gaps or repeats.
        let (mut used, mut after) = (HashSet::new(), String::new());
        loop {
            let path = format!("/v1/spaces/{space}/used?limit=10{after}");
            let page = instance.call("GET", &path).await.json();
            for row in page["used"].as_array().unwrap() {
                assert!(used.insert(row["key"].as_str().unwrap().to_owned()), "{row}");
            }
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        assert_eq!(used, given, "{space}");
        let of = async |query: &str| {
            let path = format!("/v1/spaces/{space}/used?{query}");
            instance.call("GET", &path).await.json()["used"].as_array().unwrap().len()
        };
        assert_eq!((of("caller=shop").await, of("caller=a%26b").await), (30, 3));
        assert_eq!(of("to=2020-01-01T00:00:00Z").await, 0);
        assert_eq!(of("from=2020-01-01T00:00:00Z").await, 53);
    }
    let path = format!("/v1/spaces/default/keys?caller={}", "x".repeat(129));
    instance.call("POST", &path).await.is_problem(400, "bad_caller", "128");
    let answer = instance.call("GET", "/v1/spaces/shuffled/used?after=x").await;
    answer.is_problem(400, "bad_parameter", "after");
}

#[tokio::test]
async fn a_key_is_retired_once_it_was_handed_out_or_its_time_is_over() {
    let instance = Instance::start().await;
    instance.put("pool", &json!({"kind": "pooled", "low_water": 10, "audit": "key"})).await;
    let take = async || {
        let answer = instance.call("POST", "/v1/spaces/pool/keys").await.json();
        answer["keys"][0].as_str().unwrap().to_owned()
    };
    let (first, second) = (take().await, take().await);
    let retired = instance.call("DELETE", &format!("/v1/spaces/pool/keys/{first}")).await;
    assert_eq!(retired.status, 200, "{}", retired.body);
    let at = retired.json()["retired_at"].clone();
    assert!(at.is_string());
    let again = instance.call("DELETE", &format!("/v1/spaces/pool/keys/{first}")).await;
    assert_eq!(again.json()["retired_at"], at, "its time stays");
    let state = async |key: &str| {
        let known = instance.call("GET", &format!("/v1/spaces/pool/keys/{key}")).await.json();
        known["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (state(&first).await.as_str(), state(&second).await.as_str()),
        ("retired", "issued")
    );
    let unissued = instance.call("DELETE", "/v1/spaces/default/keys/0000000").await;
    unissued.is_problem(409, "not_retirable", "");
    // Of a lease, without a row before.
    let key = instance.call("GET", "/get-key").await.body;
    let retired = instance.call("DELETE", &format!("/v1/spaces/default/keys/{key}")).await;
    assert_eq!(retired.status, 200, "{}", retired.body);
    let known = instance.call("GET", &format!("/v1/spaces/default/keys/{key}")).await.json();
    assert_eq!(known["state"], "retired");
    // By its time to live.
    instance.put("pool", &json!({"kind": "pooled", "ttl_seconds": 1})).await;
    let short = take().await;
    assert_eq!(state(&short).await, "issued");
    let begin = std::time::Instant::now();
    while state(&short).await != "retired" {
        assert!(begin.elapsed().as_secs() < 10, "it lives on");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_same_input_has_the_same_key() {
    let instance = Instance::start().await;
    let spec = json!({"kind": "digest", "normalize": "url"});
    assert_eq!(instance.put("urls", &spec).await.status, 201);
    let digest = async |input: &str, scope: &str| {
        let body = json!({"input": input, "scope": scope}).to_string();
        instance.send("POST", "/v1/spaces/urls/digests", "", &body).await
    };
    let first = digest("https://example.com/a?b=c", "").await.json();
    assert_eq!(first["made"], true);
    let again = digest("HTTPS://EXAMPLE.com:443/x/../a?b=c", "").await.json();
    assert_eq!((&again["key"], &again["made"]), (&first["key"], &json!(false)));
    let other = digest("https://example.com/a?b=c", "bob").await.json();
    assert_ne!(other["key"], first["key"], "another user's");
    digest("", "").await.is_problem(400, "bad_input", "empty");
    digest("no url", "").await.is_problem(400, "bad_input", "URL");
    instance.call("POST", "/v1/spaces/urls/keys").await.is_problem(409, "wrong_kind", "digests");
    let known = first["key"].as_str().unwrap();
    let known = instance.call("GET", &format!("/v1/spaces/urls/keys/{known}")).await.json();
    assert_eq!(known["state"], "issued");
    let body = r#"{"input": "x"}"#;
    let wrong = instance.send("POST", "/v1/spaces/default/digests", "", body).await;
    wrong.is_problem(409, "wrong_kind", "digest");
    let path = format!("/v1/spaces/urls/aliases/{}", first["key"].as_str().unwrap());
    instance.send("PUT", &path, "", "{}").await.is_problem(409, "taken", "");
}

#[test]
fn a_pool_is_filled_exactly_also_after_a_fill_that_was_killed() {
    let place = Place::new();
    place.ok(&["space", "create", "pool", "--kind", "pooled", "--blocklist", "false"]);
    let mut fill = place.command(&["pool", "fill", "pool", "--up-to", "400000"]).spawn().unwrap();
    let database = place.path().join("keymill/keymill.db");
    let begin = std::time::Instant::now();
    // In the midst of it: something is written, and not all.
    while available(&database) == 0 {
        assert!(begin.elapsed().as_secs() < 20, "nothing is written");
    }
    fill.kill().unwrap();
    fill.wait().unwrap();
    let before = available(&database);
    assert!(before < 400_000, "the fill was done before it was killed");
    place.ok(&["pool", "fill", "pool", "--up-to", "400000"]);
    let keys = place.ok(&["pool", "export", "pool"]);
    let keys: HashSet<&str> = keys.lines().collect();
    assert_eq!(keys.len(), 400_000, "after {before} of the first fill");
    place.ok(&["pool", "fill", "pool", "--count", "5"]);
    assert!(place.ok(&["space", "show", "pool"]).contains("in the pool  400,005"));
    place.fails(&["pool", "fill", "pool"], 2, "--count");
    place.fails(&["pool", "fill", "other", "--count", "1"], 1, "no keyspace");
}

#[test]
fn the_record_is_exported_as_json_and_csv() {
    let place = Place::new();
    place.ok(&["space", "create", "links", "--audit", "key"]);
    place.fails(&["pool", "export", "links"], 1, "no pool");
    let keys = place.ok(&["take", "links", "-n", "3", "--caller", "the, shop"]);
    let csv = place.ok(&["audit", "export", "links", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 4);
    assert!(csv.starts_with("key,used_at,caller,instance,expires_at,retired_at\n"));
    for key in keys.lines() {
        assert!(csv.contains(&format!("\n{key},")) && csv.contains(",\"the, shop\","), "{csv}");
    }
    let ndjson = place.ok(&["audit", "export", "links", "--caller", "the, shop"]);
    let rows: Vec<Value> = ndjson.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 3);
    assert!(place.ok(&["audit", "export", "links", "--caller", "nobody"]).is_empty());
    let imported = place.run(&["pool", "import", "links", "nowhere.txt"]);
    assert_eq!(imported.status.code(), Some(1), "{}", stderr(&imported));
}

/// How many keys the database says are in the pool.
fn available(database: &std::path::Path) -> i64 {
    let Ok(connection) = rusqlite::Connection::open(database) else { return 0 };
    connection.query_row("SELECT available FROM pools", [], |row| row.get(0)).unwrap_or(0)
}
