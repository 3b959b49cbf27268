//! The HTTP front on a true server, in this process, on a port of its own.

use std::net::SocketAddr;
use std::time::Duration;

use keymill::front::http::Http;
use keymill::server::{self, ServerLimits};
use keymill::service::{Limits, Service, Setup};
use keymill::space::{Kind, SpaceSpec};
use keymill_core::Blocklist;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

pub(crate) struct Instance {
    pub(crate) address: SocketAddr,
    pub(crate) service: Service,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) ended: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Instance {
    pub(crate) async fn start() -> Instance {
        Instance::start_with(ServerLimits::default()).await
    }

    pub(crate) async fn start_with(limits: ServerLimits) -> Instance {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("keymill.db").display());
        let setup = Setup {
            store: keymill::store::open(&url, keymill::store::Opening::default()).await.unwrap(),
            data_dir: folder.path().to_owned(),
            secret: None,
            blocklist: Blocklist::builtin(),
            alias_rules: Default::default(),
            limits: Limits { wait_max: Duration::from_millis(300), ..Limits::default() },
            require_existing: false,
            worker: None,
            clock: Default::default(),
            unsafe_store: None,
        };
        let service = Service::start(setup).await.unwrap();
        service.ensure_space("default", &SpaceSpec::default()).await.unwrap();
        let http = Http::new(service.clone(), "default", 4_096);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(async move {
            let stopped = async { stopped.await.unwrap_or(()) };
            server::run(listener, http, ServerLimits { threads: 1, ..limits }, stopped)
                .await
                .unwrap();
        });
        Instance { address, service, stop: Some(stop), ended, _folder: folder }
    }

    async fn ask(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub(crate) async fn call(&self, method: &str, path: &str) -> Answer {
        self.send(method, path, "", "").await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let len = body.len();
        self.ask(&format!(
            "{method} {path} HTTP/1.1\r\nhost: k\r\nconnection: close\r\ncontent-length: {len}\r\n{headers}\r\n{body}"
        ))
        .await
    }

    pub(crate) async fn put(&self, space: &str, body: &Value) -> Answer {
        let json = "content-type: application/json\r\n";
        self.send("PUT", &format!("/v1/spaces/{space}"), json, &body.to_string()).await
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Asserts that this is a problem, with its status, code and a part of what it says.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str, says: &str) {
        assert_eq!(self.status, status, "{}", self.body);
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        let problem = self.json();
        assert_eq!(problem["code"], code);
        assert_eq!(problem["status"], status);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "`{detail}` does not say `{says}`");
    }
}

fn is_key(text: &str) -> bool {
    text.len() == 7 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[tokio::test]
async fn get_key_answers_one_key_as_plain_text() {
    let instance = Instance::start().await;
    let answer = instance.call("GET", "/get-key").await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain"));
    assert!(answer.head.contains("cache-control: no-store"));
    assert!(is_key(&answer.body), "{}", answer.body);
    let another = instance.call("GET", "/get-key?space=default").await;
    assert!(is_key(&another.body) && another.body != answer.body);
}

#[tokio::test]
async fn keys_come_as_json_or_one_per_line() {
    let instance = Instance::start().await;
    let answer = instance.call("POST", "/v1/spaces/default/keys?count=3").await;
    assert_eq!(answer.status, 200);
    let body = answer.json();
    assert_eq!(body["space"], "default");
    let keys = body["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| is_key(key.as_str().unwrap())));
    let one = instance.call("POST", "/v1/spaces/default/keys").await.json();
    assert_eq!(one["keys"].as_array().unwrap().len(), 1);
    let plain = "accept: text/plain\r\n";
    let answer = instance.send("POST", "/v1/spaces/default/keys?count=5000", plain, "").await;
    let mut lines: Vec<&str> = answer.body.lines().collect();
    assert!(answer.body.ends_with('\n') && lines.iter().all(|line| is_key(line)));
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 5_000);
}

#[tokio::test]
async fn bad_takes_are_told_what_is_wrong() {
    let instance = Instance::start().await;
    for count in ["0", "-1", "100001", "abc", "", "1.5", "99999999999999999999"] {
        let path = format!("/v1/spaces/default/keys?count={count}");
        let answer = instance.call("POST", &path).await;
        answer.is_problem(400, "bad_count", "from 1 to 100000");
    }
    let post = async |path: &str| instance.call("POST", path).await;
    post("/v1/spaces/default/keys?cuont=3").await.is_problem(400, "unknown_parameter", "`count`");
    post("/v1/spaces/default/keys?count=1&count=2").await.is_problem(
        400,
        "repeated_parameter",
        "`count`",
    );
    let answer = instance.send("POST", "/v1/spaces/default/keys", "", "{\"count\":5}").await;
    answer.is_problem(400, "unexpected_body", "?count=N");
    let head = instance.call("HEAD", "/get-key").await;
    assert_eq!(head.status, 405, "a HEAD must not draw a key");
    post("/v1/spaces/nope/keys").await.is_problem(404, "unknown_space", "`nope`");
    post("/v1/spaces/%zz/keys").await.is_problem(400, "bad_encoding", "percent-encoding");
    post("/v1/spaces/%ff/keys").await.is_problem(400, "bad_encoding", "percent-encoding");
    let get = async |path: &str| instance.call("GET", path).await;
    get("/get-key?space=nope").await.is_problem(404, "unknown_space", "`nope`");
    get("/get-key?space=%2").await.is_problem(400, "bad_encoding", "percent-encoding");
    get("/v1/nothing").await.is_problem(404, "not_found", "/v1/nothing");
    get("/v1/spaces/default/keys").await.is_problem(405, "method_not_allowed", "GET");
    let wrong = post("/get-key").await;
    wrong.is_problem(405, "method_not_allowed", "POST");
    assert!(wrong.head.contains("allow: get"), "{}", wrong.head);
    let body = "x".repeat(5_000);
    let answer = instance.send("POST", "/v1/spaces/default/keys", "", &body).await;
    answer.is_problem(413, "body_too_large", "4096");
    let answer =
        instance.send("PUT", "/v1/spaces/big", "content-type: application/json\r\n", &body).await;
    answer.is_problem(413, "body_too_large", "4096");
}

#[tokio::test]
async fn a_space_is_made_once_and_the_same_again_is_welcome() {
    let instance = Instance::start().await;
    let orders =
        json!({"alphabet": "base32", "length": 8, "prefix": "ord_", "group": 4, "check": true});
    let made = instance.put("orders", &orders).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.json()["capacity"], 1_099_511_627_776_u64);
    assert_eq!(instance.put("orders", &orders).await.status, 200);
    let key = instance.call("GET", "/get-key?space=orders").await.body;
    assert!(key.starts_with("ord_") && key.len() == "ord_ABCD-EFGH-X".len(), "{key}");
    let different = instance.put("orders", &json!({"alphabet": "base36", "length": 8})).await;
    different.is_problem(409, "different_definition", "alphabet is `base32` in the store");
    let differences = different.json()["differences"].as_array().unwrap().len();
    assert_eq!(differences, 4, "alphabet, prefix, group and check");
    let mut shorter = orders.clone();
    shorter["horizon_seconds"] = json!(60);
    let tuned = instance.put("orders", &shorter).await;
    assert_eq!((tuned.status, &tuned.json()["horizon_seconds"]), (200, &json!(60)));
    // What is not named stays as it is.
    let mut looser = orders.clone();
    looser["blocklist"] = json!(false);
    let tuned = instance.put("orders", &looser).await.json();
    assert_eq!((&tuned["horizon_seconds"], &tuned["blocklist"]), (&json!(60), &json!(false)));
}

#[tokio::test]
async fn a_body_counts_whatever_it_is_labelled_as() {
    let instance = Instance::start().await;
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    let made = instance.send("PUT", "/v1/spaces/nine", form, "{\"length\":9}").await;
    assert_eq!((made.status, &made.json()["length"]), (201, &json!(9)));
    let made = instance.call("PUT", "/v1/spaces/plain").await;
    assert_eq!(
        (made.status, &made.json()["length"]),
        (201, &json!(7)),
        "no body asks for defaults"
    );
}

#[tokio::test]
async fn definitions_that_cannot_be_are_refused_with_the_reason() {
    let instance = Instance::start().await;
    let refused = async |body: Value, code: &str, says: &str| {
        instance.put("bad", &body).await.is_problem(400, code, says);
    };
    refused(json!({"alphabet": "abca"}), "bad_definition", "a").await;
    refused(json!({"alphabet": "ab/d"}), "bad_definition", "/").await;
    refused(json!({"alphabet": "x"}), "bad_definition", "2").await;
    refused(json!({"alphabet": "base63"}), "bad_definition", "base62").await;
    refused(json!({"length": 21}), "bad_definition", "20").await;
    refused(json!({"alphabet": "base36", "length": 3}), "bad_definition", "4").await;
    refused(json!({"step": 0}), "bad_definition", "step").await;
    refused(json!({"kind": "sequential", "step": 2, "offset": 2}), "bad_definition", "offset")
        .await;
    refused(json!({"step": 2}), "bad_definition", "KEYMILL_SECRET").await;
    refused(json!({"alphabet": "01", "length": 20, "check": true}), "bad_definition", "check")
        .await;
    refused(json!({"lease_size_min": 0}), "bad_definition", "lease_size_min").await;
    let json = "content-type: application/json\r\n";
    let send = async |body: &str| instance.send("PUT", "/v1/spaces/bad", json, body).await;
    send("{\"lenght\": 7}").await.is_problem(400, "bad_body", "lenght");
    send("{\"length\": 8, \"length\": 9}").await.is_problem(400, "bad_body", "duplicate");
    send("[\"sequential\"]").await.is_problem(400, "bad_body", "object");
    send("{").await.is_problem(400, "bad_body", "JSON");
    instance.put("Bad%20Name", &json!({})).await.is_problem(400, "bad_definition", "Bad Name");
    instance.call("GET", "/v1/spaces/bad").await.is_problem(404, "unknown_space", "bad");
}

#[tokio::test]
async fn a_key_explains_itself() {
    let instance = Instance::start().await;
    let key = instance.call("GET", "/get-key").await.body;
    let explain = async |key: &str| {
        instance.call("GET", &format!("/v1/spaces/default/keys/{key}")).await.json()
    };
    let known = explain(&key).await;
    assert_eq!((&known["state"], &known["ordinal"]), (&json!("leased"), &json!(0)));
    assert_eq!(known["lease"]["holder"]["pid"], std::process::id());
    assert_eq!((&known["lease"]["start"], &known["lease"]["end"]), (&json!(0), &json!(1000)));
    let space = instance.service.space("default").await.unwrap();
    let future = space.codec().key(1_000_000);
    assert_eq!(explain(future.as_str()).await["state"], "unissued");
    for (key, why) in [("short", "7"), ("toolong1", "7"), ("abc%2Bdef", "+")] {
        let explained = explain(key).await;
        assert_eq!(explained["state"], "invalid", "{key}");
        let reason = explained["reason"].as_str().unwrap();
        assert!(reason.contains(why), "`{reason}` does not say `{why}`");
    }
}

#[tokio::test]
async fn spaces_are_shown_in_figures() {
    let instance = Instance::start().await;
    instance.call("GET", "/get-key").await;
    let shown = instance.call("GET", "/v1/spaces/default").await.json();
    assert_eq!(shown["capacity"], 3_521_614_606_208_u64);
    assert_eq!(shown["leased"], 1_000);
    assert_eq!(shown["remaining"], 3_521_614_605_208_u64);
    assert_eq!(shown["at_hand"], 999);
    let density = shown["density"].as_f64().unwrap();
    assert!((density - 1_000.0 / 3_521_614_606_208.0).abs() < 1e-15);
    let wanted = SpaceSpec {
        kind: Some(Kind::Sequential),
        alphabet: Some("decimal".to_owned()),
        length: Some(0),
        ..SpaceSpec::default()
    };
    instance.service.ensure_space("tickets", &wanted).await.unwrap();
    let listed = instance.call("GET", "/v1/spaces").await.json();
    assert_eq!(listed["spaces"][1]["capacity"], "9223372036854775807", "too large for a number");
    let tickets = instance.call("POST", "/v1/spaces/tickets/keys?count=3").await.json();
    assert_eq!(tickets["keys"], json!(["0", "1", "2"]));
}

#[tokio::test]
async fn the_audit_record_is_paged() {
    let instance = Instance::start().await;
    for _ in 0..3 {
        instance.call("POST", "/v1/spaces/default/keys?count=5000").await;
    }
    instance.service.announce("127.0.0.1:1".to_owned());
    let first = instance.call("GET", "/v1/leases?limit=1").await.json();
    assert_eq!(first["leases"].as_array().unwrap().len(), 1);
    let next = first["next"].as_str().unwrap();
    let second = instance.call("GET", &format!("/v1/leases?limit=1&after={next}")).await.json();
    assert_ne!(first["leases"][0]["lease"], second["leases"][0]["lease"]);
    let get = async |path: &str| instance.call("GET", path).await;
    get("/v1/leases?limit=0").await.is_problem(400, "bad_parameter", "1 to 1000");
    get("/v1/leases?limit=x").await.is_problem(400, "bad_parameter", "limit");
    get("/v1/leases?after=nonsense").await.is_problem(400, "bad_parameter", "after");
    let beyond = "/v1/leases?after=a/18446744073709551615";
    get(beyond).await.is_problem(400, "bad_parameter", "after");
    get("/v1/leases?space=nope").await.is_problem(404, "unknown_space", "nope");
    get("/v1/leases?spcae=x").await.is_problem(400, "bad_parameter", "spcae");
    let instances = get("/v1/instances").await.json();
    assert_eq!(instances["instances"][0]["pid"], std::process::id());
}

#[tokio::test]
async fn whoever_watches_is_told() {
    let instance = Instance::start().await;
    instance.call("GET", "/get-key").await;
    assert_eq!(instance.call("GET", "/healthz").await.body, "ok\n");
    let ready = instance.call("GET", "/readyz").await;
    assert_eq!((ready.status, ready.json()), (200, json!({"ready": true, "problems": []})));
    let metrics = instance.call("GET", "/metrics").await.body;
    for line in [
        "keymill_requests_total{route=\"get_key\",status=\"2xx\"} 1",
        "keymill_leases_total{space=\"default\"} 1",
        "keymill_ready 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    let number = |name: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.strip_prefix("{space=\"default\"} ").unwrap().parse().unwrap()
    };
    // The secret is made up: once in a while the first keys are blocked, and drawn all the same.
    assert!(number("keymill_keys_total") >= 1);
    assert_eq!(number("keymill_keys_total") + number("keymill_keys_at_hand"), 1_000);
}

#[tokio::test]
async fn the_description_names_every_route_and_every_route_exists() {
    let instance = Instance::start().await;
    let api = instance.call("GET", "/openapi.json").await.json();
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths: Vec<&String> = api["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths.len(), 14, "{paths:?}");
    for path in paths {
        let path =
            path.replace("{space}", "default").replace("{key}", "0000000").replace("{alias}", "a");
        let answer = instance.call("OPTIONS", &path).await;
        assert_eq!(answer.status, 405, "{path} is there, but not for OPTIONS");
    }
    let docs = instance.call("GET", "/docs").await;
    assert!(docs.head.contains("text/html") && docs.body.contains("/openapi.json"));
    assert_eq!(instance.call("GET", "/").await.status, 303);
}

#[tokio::test]
async fn an_alias_and_a_generated_key_are_never_the_same() {
    let instance = Instance::start().await;
    let tickets = json!({"kind": "sequential", "alphabet": "decimal", "length": 3,
        "lease_size_min": 5, "lease_size_max": 5});
    assert_eq!(instance.put("tickets", &tickets).await.status, 201);
    let alias = async |method: &str, alias: &str, owner: &str| {
        let body = json!({"owner": owner}).to_string();
        instance.send(method, &format!("/v1/spaces/tickets/aliases/{alias}"), "", &body).await
    };
    // Before anything is leased, in the middle of a later lease, and one that is no ticket.
    for name in ["002", "017", "winter-sale"] {
        assert_eq!(alias("PUT", name, "me").await.status, 201, "{name}");
        assert_eq!(alias("PUT", name, "me").await.status, 200, "{name}");
        alias("PUT", name, "you").await.is_problem(409, "taken", name);
    }
    let taken = instance.call("POST", "/v1/spaces/tickets/keys?count=3").await.json();
    assert_eq!(taken["keys"], json!(["000", "001", "003"]));
    alias("PUT", "001", "me").await.is_problem(409, "taken", "001");
    alias("PUT", "004", "me").await.is_problem(409, "taken", "004");
    alias("DELETE", "017", "you").await.is_problem(409, "taken", "017");
    assert_eq!(alias("DELETE", "017", "me").await.status, 204);
    alias("DELETE", "017", "me").await.is_problem(404, "unknown_alias", "017");
    let mut keys = Vec::new();
    loop {
        let answer = instance.call("POST", "/v1/spaces/tickets/keys?count=100").await;
        if answer.status != 200 {
            answer.is_problem(409, "exhausted", "used up");
            break;
        }
        let answer = answer.json();
        let some = answer["keys"].as_array().unwrap().iter();
        keys.extend(some.map(|key| key.as_str().unwrap().to_owned()));
    }
    assert_eq!(keys.len(), 1_000 - 5);
    assert!(!keys.contains(&"002".to_owned()) && !keys.contains(&"017".to_owned()));
    for (key, state) in [("002", "alias"), ("winter-sale", "alias"), ("017", "skipped")] {
        let told = instance.call("GET", &format!("/v1/spaces/tickets/keys/{key}")).await.json();
        assert_eq!(told["state"], state, "{told}");
    }
}

#[tokio::test]
async fn an_alias_that_cannot_be_is_refused_with_the_reason() {
    let instance = Instance::start().await;
    for (alias, says) in [
        ("seventeen-letters", "1 to 16 characters"),
        ("a%2Fb", "letters, digits"),
        ("%C3%A4", "letters, digits"),
        ("Admin", "reserved"),
        ("xfuckx", "blocklist"),
    ] {
        let path = format!("/v1/spaces/default/aliases/{alias}");
        instance.call("PUT", &path).await.is_problem(400, "bad_alias", says);
    }
    let nowhere = instance.call("PUT", "/v1/spaces/nowhere/aliases/a").await;
    nowhere.is_problem(404, "unknown_space", "nowhere");
    let body = "{\"ownr\": 1}";
    let answer = instance.send("PUT", "/v1/spaces/default/aliases/a", "", body).await;
    answer.is_problem(400, "bad_body", "ownr");
    assert_eq!(instance.call("PUT", "/v1/spaces/default/aliases/").await.status, 404);
}

#[tokio::test]
async fn snowflake_ids_are_strings_and_numbers_where_that_is_safe() {
    let instance = Instance::start().await;
    let made = instance.put("ids", &json!({"kind": "snowflake", "layout": "javascript"})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let view = made.json();
    assert_eq!((&view["layout"], &view["alphabet"]), (&json!("41/5/7"), &json!("decimal")));
    assert_eq!(view["epoch"], "2025-01-01T00:00:00Z");
    assert_eq!(view["runs_out_at"], "2094-09-07T15:47:35.552Z");
    // The same by another name, and another.
    let same = json!({"kind": "snowflake", "layout": "41/w5/s7", "epoch": "2025-01-01T00:00:00Z"});
    assert_eq!(instance.put("ids", &same).await.status, 200);
    let other = instance.put("ids", &json!({"kind": "snowflake", "layout": "41/6/6"})).await;
    other.is_problem(409, "different_definition", "layout is `41/5/7` in the store, `41/6/6` here");

    let keys = instance.call("POST", "/v1/spaces/ids/keys?count=3").await.json();
    let text = keys["keys"][2].as_str().unwrap().to_owned();
    let numbers = instance.call("POST", "/v1/spaces/ids/keys?count=3&numbers=true").await.json();
    assert!(numbers["keys"][0].as_u64().unwrap() > text.parse().unwrap());
    let known = instance.call("GET", &format!("/v1/spaces/ids/keys/{text}")).await.json();
    assert_eq!((&known["state"], &known["worker"]), (&json!("leased"), &json!(0)));
    assert_eq!(known["lease"]["purpose"], "window");
    assert!(known["time"].is_string() && known["sequence"].is_u64(), "{known}");

    assert_eq!(instance.put("long", &json!({"kind": "snowflake"})).await.status, 201);
    let refusal = instance.call("POST", "/v1/spaces/long/keys?numbers=true").await;
    refusal.is_problem(400, "unsafe_numbers", "at most 53 bits");
    let refusal = instance.call("POST", "/v1/spaces/ids/keys?numbers=yes").await;
    refusal.is_problem(400, "bad_parameter", "true or false");
    let refusal = instance.call("PUT", "/v1/spaces/ids/aliases/12345").await;
    refusal.is_problem(400, "bad_alias", "no key can be passed over");
    assert_eq!(instance.call("PUT", "/v1/spaces/ids/aliases/summer").await.status, 201);

    let metrics = instance.call("GET", "/metrics").await.body;
    for line in [
        "keymill_worker{space=\"ids\"} 0",
        "keymill_clock_jumps_total{space=\"ids\"} 0",
        "keymill_runs_out_timestamp_seconds{space=\"ids\"} 3934712855",
    ] {
        assert!(metrics.contains(line), "no `{line}` in {metrics}");
    }
}

#[tokio::test]
async fn a_snowflake_that_cannot_be_is_refused_with_the_reason() {
    let instance = Instance::start().await;
    for (wanted, says) in [
        (json!({"layout": "41/10/13"}), "at most 63 bits"),
        (json!({"layout": "41-10-12"}), "layout"),
        (json!({"layout": "41/22/0"}), "16"),
        (json!({"layout": "41/10/0"}), "needs a sequence bit"),
        (json!({"epoch": "2999-01-01T00:00:00Z"}), "lies in the future"),
        (json!({"layout": "30/10/12"}), "the bits of the time ran out at"),
        (json!({"alphabet": "base62", "length": 5}), "too short for IDs of 63 bits"),
        (json!({"step": 2}), "does not go with kind snowflake"),
        (json!({"start": 2}), "does not go with kind snowflake"),
        (json!({"uuid_version": 4}), "goes with kind uuid"),
        (json!({"window_seconds": 0}), "from 1 to 3600"),
    ] {
        let mut wanted = wanted;
        wanted["kind"] = json!("snowflake");
        instance.put("ids", &wanted).await.is_problem(400, "bad_definition", says);
    }
    let shuffled = instance.put("ids", &json!({"layout": "41/10/12"})).await;
    shuffled.is_problem(400, "bad_definition", "go with kind snowflake");
}

#[tokio::test]
async fn uuids_are_handed_out_and_tell_their_time() {
    let instance = Instance::start().await;
    assert_eq!(instance.put("events", &json!({"kind": "uuid"})).await.status, 201);
    let keys = instance.call("POST", "/v1/spaces/events/keys?count=1000").await.json();
    let keys: Vec<&str> = keys["keys"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
    assert!(keys.len() == 1_000 && keys.is_sorted_by(|a, b| a < b), "in the order of time");
    let known = instance.call("GET", &format!("/v1/spaces/events/keys/{}", keys[0])).await.json();
    assert_eq!(known["state"], "unknown");
    assert!(known["time"].as_str().unwrap() > "2025", "{known}");
    let none = instance.call("GET", "/v1/spaces/events/keys/x").await.json();
    assert_eq!(none["state"], "invalid");
    assert_eq!(instance.call("GET", "/get-key?space=events").await.body.len(), 36);

    let four = instance.put("random", &json!({"kind": "uuid", "uuid_version": 4})).await;
    assert_eq!(four.status, 201, "{}", four.body);
    let key = instance.call("GET", "/get-key?space=random").await.body;
    assert_eq!(&key[14..15], "4");
    for (wanted, says) in [
        (json!({"uuid_version": 1}), "must be 4 or 7"),
        (json!({"length": 8}), "does not go with kind uuid"),
        (json!({"prefix": "x_"}), "does not go with kind uuid"),
        (json!({"audit": "key"}), "does not go with kind uuid"),
    ] {
        let mut wanted = wanted;
        wanted["kind"] = json!("uuid");
        instance.put("no", &wanted).await.is_problem(400, "bad_definition", says);
    }
}
