//! Keyspaces, pools and the store, administered over HTTP: what the commands do, with a token instead of a database.

use serde_json::{Value, json};

use super::{Instance, settled};

const PLAIN: &str = "content-type: text/plain\r\n";

#[tokio::test]
async fn only_the_settings_that_are_named_change() {
    let instance = Instance::start().await;
    let change = async |space: &str, body: Value| {
        instance.send("PATCH", &format!("/v1/spaces/{space}"), "", &body.to_string()).await
    };
    let changed = change("default", json!({"horizon_seconds": 60, "blocklist": false})).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    let changed = change("default", json!({"audit": "key"})).await.json();
    assert_eq!((&changed["audit"], &changed["blocklist"]), (&json!("key"), &json!(false)));
    assert_eq!((&changed["horizon_seconds"], &changed["length"]), (&json!(60), &json!(7)));
    assert_eq!(change("default", json!({})).await.json()["horizon_seconds"], 60);
    for (body, status, code, says) in [
        (json!({"length": 8}), 400, "bad_body", "unknown field `length`"),
        (json!({"audit": "all"}), 400, "bad_body", "`audit` must be `batch` or `key`"),
        (json!({"horizon_seconds": 0}), 400, "bad_definition", "horizon_seconds"),
        (json!({"low_water": 5}), 409, "wrong_kind", "has no setting `low_water`"),
    ] {
        change("default", body).await.is_problem(status, code, says);
    }
    change("nowhere", json!({"audit": "key"})).await.is_problem(404, "unknown_space", "nowhere");
}

#[tokio::test]
async fn a_keyspace_grows_and_ends() {
    let instance = Instance::start().await;
    let post = async |path: &str, body: &str| {
        instance.send("POST", &format!("/v1/spaces/default{path}"), "", body).await
    };
    let grown = post("/grow", r#"{"length": 8}"#).await;
    assert_eq!(grown.json()["grown"], json!([8]), "{}", grown.body);
    assert_eq!(grown.json()["capacity"], 62_u64.pow(7) + 62_u64.pow(8));
    post("/grow", r#"{"length": 8}"#).await.is_problem(400, "bad_definition", "above 8");
    post("/grow", "{}").await.is_problem(400, "bad_body", "length");
    for query in ["", "?confirm=", "?confirm=other", "?confirm=true"] {
        let path = format!("/seal{query}");
        post(&path, "").await.is_problem(400, "unconfirmed", "confirm=default");
    }
    assert_eq!(instance.call("GET", "/v1/spaces/default").await.json()["sealed"], false);
    assert_eq!(instance.call("GET", "/get-key").await.status, 200, "it holds keys");
    let sealed = post("/seal?confirm=default", "").await;
    assert_eq!(sealed.json()["sealed"], true, "{}", sealed.body);
    // The instance that did it does not wait for its heartbeat.
    instance.call("GET", "/get-key").await.is_problem(409, "sealed", "default");
    post("/grow", r#"{"length": 9}"#).await.is_problem(409, "sealed", "default");
}

#[tokio::test]
async fn a_pool_is_filled_a_part_at_a_time_and_listed_in_its_order() {
    let instance = Instance::start().await;
    let spec = json!({"kind": "pooled", "alphabet": "decimal", "length": 6, "blocklist": false});
    instance.put("pool", &spec).await;
    let fill = async |body: Value| {
        instance.send("POST", "/v1/spaces/pool/pool/fill", "", &body.to_string()).await
    };
    let (mut added, mut requests) = (0, 0);
    loop {
        let filled = fill(json!({"up_to": 100_000})).await;
        assert_eq!(filled.status, 200, "{}", filled.body);
        let filled = filled.json();
        added += filled["added"].as_u64().unwrap();
        requests += 1;
        assert_eq!(filled["left"], 100_000 - added, "{filled}");
        if filled["left"] == 0 {
            break;
        }
    }
    assert_eq!((added, requests), (100_000, 2));
    assert_eq!(fill(json!({"up_to": 5})).await.json()["added"], 0, "there are enough");
    let filled = fill(json!({"count": 1})).await.json();
    assert_eq!((&filled["added"], &filled["is_used_up"]), (&json!(1), &json!(false)));
    for body in [json!({}), json!({"count": 1, "up_to": 1}), json!({"count": 0})] {
        fill(body).await.is_problem(400, "bad_body", "`count`");
    }
    // All of it, page by page, is what is handed out next.
    let (mut listed, mut after) = (Vec::new(), String::new());
    while listed.len() < 3_000 {
        let page = instance.call("GET", &format!("/v1/spaces/pool/pool?limit=1000{after}")).await;
        let page = page.json();
        let keys = page["keys"].as_array().unwrap().iter();
        listed.extend(keys.map(|key| key.as_str().unwrap().to_owned()));
        after = format!("&after={}", page["next"].as_str().unwrap().replace('/', "%2F"));
    }
    let taken = settled(async || instance.call("POST", "/v1/spaces/pool/keys?count=1000").await)
        .await
        .json();
    let taken = taken["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap());
    assert!(taken.eq(listed[..1_000].iter().map(String::as_str)), "another order");
    instance.call("GET", "/v1/spaces/pool/pool?after=x").await.is_problem(400, "bad_parameter", "");
    for path in ["/v1/spaces/default/pool", "/v1/spaces/default/pool/fill"] {
        let (method, body) =
            if path.ends_with("fill") { ("POST", r#"{"count":1}"#) } else { ("GET", "") };
        let refused = instance.send(method, path, "", body).await;
        refused.is_problem(409, "wrong_kind", "has no pool");
    }
}

#[tokio::test]
async fn a_pool_is_filled_to_the_last_key_of_its_keyspace() {
    let instance = Instance::start().await;
    let spec = json!({"kind": "pooled", "alphabet": "decimal", "length": 6, "blocklist": false});
    instance.put("pool", &spec).await;
    let mut added = 0;
    let fill = async || {
        let body = r#"{"count": 2000000}"#;
        instance.send("POST", "/v1/spaces/pool/pool/fill", "", body).await
    };
    let last = loop {
        let filled = fill().await.json();
        added += filled["added"].as_u64().unwrap();
        if filled["is_used_up"] == true {
            break filled;
        }
    };
    assert_eq!(added, 1_000_000, "{last}");
    fill().await.is_problem(409, "exhausted", "used up");
}

#[tokio::test]
async fn keys_in_use_are_imported_and_never_handed_out() {
    let instance = Instance::start().await;
    let spec = json!({"kind": "sequential", "alphabet": "decimal", "length": 3});
    instance.put("tickets", &spec).await;
    let import = async |query: &str, body: &str| {
        let path = format!("/v1/spaces/tickets/used-keys{query}");
        instance.send("POST", &path, PLAIN, body).await
    };
    let report = import("", "000\n\n002\nnot a key of it!\n").await.json();
    assert_eq!((&report["imported"], &report["refused"][0]["line"]), (&json!(2), &json!(4)));
    // Of a file that comes in parts, lines are told by their number in the file.
    let report = import("?first_line=100", "002\n004\n004\n").await.json();
    assert_eq!((&report["imported"], &report["already_there"]), (&json!(1), &json!(1)));
    let refused = &report["refused"][0];
    assert_eq!((&refused["line"], &refused["reason"]), (&json!(102), &json!("repeats line 101")));
    for wrong in ["0", "x", "-1", "4294967296"] {
        let refused = import(&format!("?first_line={wrong}"), "001\n").await;
        refused.is_problem(400, "bad_parameter", "first_line");
    }
    let taken = settled(async || instance.call("POST", "/v1/spaces/tickets/keys?count=3").await)
        .await
        .json();
    assert_eq!(taken["keys"], json!(["001", "003", "005"]));
    let nowhere = instance.send("POST", "/v1/spaces/nowhere/used-keys", PLAIN, "").await;
    nowhere.is_problem(404, "unknown_space", "nowhere");
}

#[tokio::test]
async fn the_keys_of_a_period_have_bounds() {
    let instance = Instance::start().await;
    instance.put("ids", &json!({"kind": "snowflake"})).await;
    let ask = async |space: &str, query: &str| {
        instance.call("GET", &format!("/v1/spaces/{space}/bounds?{query}")).await
    };
    let day = "from=2026-11-16T00:00:00Z&to=2026-11-17T00:00:00Z";
    let bounds = ask("ids", day).await.json();
    assert_eq!(bounds, json!({"first": "247873300070400000", "last": "248235687935999999"}));
    let before = "from=1999-01-01T00:00:00Z&to=2000-01-01T00:00:00Z";
    assert_eq!(ask("ids", before).await.json(), json!({}));
    ask("ids", "from=2026-11-16T00:00:00Z").await.is_problem(400, "bad_parameter", "`to`");
    ask("default", day).await.is_problem(409, "wrong_kind", "not ordered by time");
}

#[tokio::test]
async fn the_store_is_described_with_what_makes_it_safe() {
    let instance = Instance::start().await;
    let store = instance.call("GET", "/v1/store").await.json();
    assert_eq!(store["kind"], "sqlite");
    assert_eq!(store["identity"], instance.service.store_identity().await.unwrap());
    let findings = store["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["setting"] == "journal_mode"), "{store}");
    for finding in findings {
        for field in ["setting", "found", "wanted", "verdict"] {
            assert!(finding[field].is_string(), "{finding}");
        }
    }
}

#[tokio::test]
async fn what_is_administered_is_on_record() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    let json = "content-type: application/json\r\n";
    for (method, path, headers, body) in [
        ("PATCH", "/v1/spaces/default", json, r#"{"audit":"key"}"#),
        // It is so already.
        ("PATCH", "/v1/spaces/default", json, r#"{"audit":"key"}"#),
        ("POST", "/v1/spaces/default/grow", json, r#"{"length":8}"#),
        ("POST", "/v1/spaces/default/used-keys", PLAIN, "0000000\n"),
        // A plan, which changes nothing, and is not on record.
        ("POST", "/v1/spaces/default/advance?to=5000", "", ""),
        ("POST", "/v1/spaces/default/advance?to=5000&confirm=default", "", ""),
        ("POST", "/v1/spaces/default/seal?confirm=default", "", ""),
        // Refused.
        ("POST", "/v1/spaces/default/grow", json, r#"{"length":9}"#),
    ] {
        let answer = instance.send_as(&admin, method, path, headers, body).await;
        let is_refused = body.contains('9');
        assert_eq!(answer.status, if is_refused { 409 } else { 200 }, "{path}: {}", answer.body);
    }
    let acts = instance.call_as(&admin, "GET", "/v1/acts").await.json();
    let acts: Vec<&str> =
        acts["acts"].as_array().unwrap().iter().map(|act| act["what"].as_str().unwrap()).collect();
    let expected = [
        "PATCH /v1/spaces/default",
        "POST /v1/spaces/default/grow",
        "POST /v1/spaces/default/used-keys",
        "POST /v1/spaces/default/advance",
        "POST /v1/spaces/default/seal",
    ];
    assert_eq!(acts, expected);
}
