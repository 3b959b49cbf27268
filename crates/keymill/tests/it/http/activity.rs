//! `/v1/activity`: what the counts of keyspaces say, whoever asked for keys and how.

use serde_json::{Value, json};

use super::Instance;

#[tokio::test]
async fn requests_keys_failures_and_latencies_are_counted_by_keyspace() {
    let instance = Instance::start().await;
    instance.put("urls", &json!({"kind": "digest"})).await;
    instance.put("coupons", &json!({"kind": "pooled"})).await;
    instance.put("unused", &json!({})).await;
    // The first one waits for a lease, the others do not.
    while instance.call("GET", "/get-key").await.status != 200 {}
    let first = of(&instance, "default").await;
    for path in ["/get-key", "/get-key?space=default", "/v1/spaces/default/keys"] {
        let method = if path.starts_with("/get") { "GET" } else { "POST" };
        assert_eq!(instance.call(method, path).await.status, 200, "{path}");
    }
    assert_eq!(instance.call("POST", "/v1/spaces/default/keys?count=40").await.status, 200);
    // So many that they are written as they are read.
    assert_eq!(instance.call("POST", "/v1/spaces/default/keys?count=900").await.status, 200);
    let after = of(&instance, "default").await;
    let grown = |field: &str| number(&after[field]) - number(&first[field]);
    assert_eq!((grown("requests"), grown("keys"), grown("failures")), (5, 943, 0), "{after}");
    assert_eq!((&after["kind"], after["ready"].is_number()), (&json!("shuffled"), true));

    let body = json!({"inputs": ["a", "b", "a"]}).to_string();
    let path = "/v1/spaces/urls/digests";
    let label = "content-type: application/json\r\n";
    assert_eq!(instance.send("POST", path, label, &body).await.status, 200);
    let urls = of(&instance, "urls").await;
    assert_eq!((number(&urls["requests"]), number(&urls["keys"])), (1, 3), "{urls}");

    let mut refused = 0;
    while instance.call("POST", "/v1/spaces/coupons/keys").await.status != 409 {
        refused += 1;
    }
    let coupons = of(&instance, "coupons").await;
    assert_eq!(number(&coupons["failures"]), refused + 1, "an empty pool: {coupons}");
    assert_eq!((&coupons["keys"], &coupons["ready"]), (&json!(0), &json!(0)));
    assert_eq!(of(&instance, "unused").await, Value::Null, "nobody has asked for it");

    let all = instance.call("GET", "/v1/activity").await.json();
    assert_eq!(all["instance"], json!(instance.service.instance().id));
    assert!(all["uptime_seconds"].as_f64().unwrap() > 0.0 && all["at"].is_string(), "{all}");
    let bounds = all["bounds_seconds"].as_array().unwrap().len();
    for space in all["spaces"].as_array().unwrap() {
        let counts = space["latency_counts"].as_array().unwrap();
        assert_eq!(counts.len(), bounds + 1, "{space}");
        assert_eq!(counts.iter().map(number).sum::<u64>(), number(&space["requests"]), "{space}");
    }
}

#[tokio::test]
async fn keyspaces_are_listed_by_name_and_page_by_page() {
    let instance = Instance::start().await;
    for space in ["b", "c", "a"] {
        instance.put(space, &json!({})).await;
        while instance.call("POST", &format!("/v1/spaces/{space}/keys")).await.status != 200 {}
    }
    let names = async |path: &str| -> Vec<String> {
        let page = instance.call("GET", path).await.json();
        let spaces = page["spaces"].as_array().unwrap().iter();
        spaces.map(|space| space["space"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("/v1/activity?limit=2").await, ["a", "b"]);
    let page = instance.call("GET", "/v1/activity?limit=2").await;
    assert_eq!(page.json()["next"], json!("b"));
    assert!(
        page.head.contains("link: </v1/activity?limit=2&after=b>; rel=\"next\""),
        "{}",
        page.head
    );
    assert_eq!(names("/v1/activity?limit=2&after=b").await, ["c"]);
    assert_eq!(names("/v1/activity?space=c").await, ["c"]);
    assert_eq!(names("/v1/activity?space=nobody").await, [""; 0]);
    let get = async |path: &str| instance.call("GET", path).await;
    get("/v1/activity?space=No+Name").await.is_problem(404, "unknown_space", "No Name");
    get("/v1/activity?limit=0").await.is_problem(400, "bad_parameter", "limit");
    get("/v1/activity?spaces=a").await.is_problem(400, "unknown_parameter", "spaces");
}

/// What is counted of a keyspace; null where it is not open.
async fn of(instance: &Instance, space: &str) -> Value {
    let activity = instance.call("GET", &format!("/v1/activity?space={space}")).await.json();
    activity["spaces"][0].clone()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}
