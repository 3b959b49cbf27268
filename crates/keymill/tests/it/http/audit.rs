//! Where a key came from, and the record of leases and instances.

use serde_json::json;

use super::Instance;

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
    let future = space.generations().key(1_000_000);
    assert_eq!(explain(future.as_str()).await["state"], "unissued");
    for (key, why) in [("short", "7"), ("toolong1", "7"), ("abc%2Bdef", "+")] {
        let explained = explain(key).await;
        assert_eq!(explained["state"], "invalid", "{key}");
        let reason = explained["reason"].as_str().unwrap();
        assert!(reason.contains(why), "`{reason}` does not say `{why}`");
    }
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
    get("/v1/leases?spcae=x").await.is_problem(400, "unknown_parameter", "spcae");
    let instances = get("/v1/instances").await.json();
    assert_eq!(instances["instances"][0]["pid"], std::process::id());
}
