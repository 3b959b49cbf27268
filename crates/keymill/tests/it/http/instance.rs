//! What an instance tells of itself: its health, its figures, the description of its routes.

use keymill_engine::operations::{Opening, Service, Setup};
use serde_json::json;

use super::Instance;
use crate::setup::setup;

#[tokio::test]
async fn whoever_watches_is_told() {
    let instance = Instance::start().await;
    instance.call("GET", "/get-key").await;
    assert_eq!(instance.call("GET", "/healthz").await.body, "ok\n");
    let ready = instance.call("GET", "/readyz").await;
    assert_eq!((ready.status, ready.json()), (200, json!({"ready": true, "problems": []})));
    let metrics = instance.call("GET", "/metrics").await.body;
    for line in [
        "keymill_requests_total{protocol=\"http1\",route=\"get_key\",status=\"2xx\"} 1",
        "keymill_leases_total{space=\"default\"} 1",
        "keymill_ready 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    let number = |name: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.rsplit_once("} ").unwrap().1.parse().unwrap()
    };
    // The secret is made up: once in a while the first keys are blocked, and drawn all the same.
    assert!(number("keymill_keys_total") >= 1);
    assert_eq!(number("keymill_keys_total") + number("keymill_keys_at_hand"), 1_000);
}

#[tokio::test]
async fn readiness_says_that_a_store_is_unsafe_but_not_what_the_store_has_told() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("keymill.db").display());
    let store = keymill_engine::internals::store::open(&url, Opening::default()).await.unwrap();
    // As a driver may put it.
    let told = "quorum is tcp connect error: 192.0.2.1:2379 (os error 111), should be a majority";
    let setup = setup(store, folder.path());
    let service = Service::start(Setup { unsafe_store: Some(told.to_owned()), ..setup });
    let health = service.await.unwrap().health();
    let [problem] = &health.problems[..] else { panic!("{health:?}") };
    assert_eq!((health.ready, problem.code), (true, "unsafe_store"));
    assert!(problem.detail.contains("keymill store check"), "{}", problem.detail);
    for private in ["192.0.2.1", "2379", "os error", "quorum"] {
        assert!(!problem.detail.contains(private), "{}", problem.detail);
    }
}

#[tokio::test]
async fn an_empty_pool_that_was_asked_for_is_told_with_what_to_do() {
    let instance = Instance::start().await;
    instance.put("coupons", &json!({"kind": "pooled"})).await;
    let take = async || instance.call("POST", "/v1/spaces/coupons/keys").await.status;
    let ready = async || instance.call("GET", "/readyz").await;
    assert_eq!(ready().await.json()["problems"], json!([]), "nobody has asked for it");
    assert_eq!(take().await, 409);
    let told = ready().await;
    assert_eq!((told.status, &told.json()["ready"]), (200, &json!(true)), "{}", told.body);
    let problem = told.json()["problems"][0].clone();
    assert_eq!((&problem["code"], &problem["space"]), (&json!("pool_empty"), &json!("coupons")));
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("`keymill pool fill coupons --count 100000`"), "{detail}");
    let fill = keymill_engine::operations::Filling::Add(100);
    instance.service.fill_pool("coupons", fill, |_, _| {}).await.unwrap();
    instance.service.announce("here".to_owned());
    let begin = std::time::Instant::now();
    while take().await != 200 {
        assert!(begin.elapsed().as_secs() < 20, "it is never found filled");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(ready().await.json()["problems"], json!([]));
}

#[tokio::test]
async fn the_description_names_every_route_and_every_route_exists() {
    let instance = Instance::start().await;
    let api = instance.call("GET", "/openapi.json").await.json();
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths: Vec<&String> = api["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths.len(), 31, "{paths:?}");
    for path in paths {
        let path = path.replace("{space}", "default").replace("{key}", "0000000");
        let path = path.replace("{alias}", "a").replace("{name}", "shop");
        let answer = instance.call("OPTIONS", &path).await;
        assert_eq!(answer.status, 405, "{path} is there, but not for OPTIONS");
    }
    let docs = instance.call("GET", "/docs").await;
    assert!(docs.head.contains("text/html") && docs.body.contains("/openapi.json"));
    assert_eq!(instance.call("GET", "/").await.status, 200);
}
