//! How requests are read: parameters, bodies, and what is said of those that are wrong.

use serde_json::json;

use super::Instance;

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn a_take_may_say_in_a_body_what_it_wants() {
    let instance = Instance::start().await;
    let take = async |query: &str, headers: &str, body: &str| {
        let path = format!("/v1/spaces/default/keys{query}");
        instance.send("POST", &path, headers, body).await
    };
    let keys = take("", JSON, "{\"count\": 3}").await.json()["keys"].as_array().unwrap().len();
    assert_eq!(keys, 3);
    // JSON knows but one type of number, and so do some languages.
    for (count, taken) in [("3.0", 3), ("2e1", 20)] {
        let keys = take("", JSON, &format!("{{\"count\": {count}}}")).await.json();
        assert_eq!(keys["keys"].as_array().map(Vec::len), Some(taken), "{count}");
    }
    let mixed = take("?count=2", JSON, "{\"caller\": \"shop\"}").await.json();
    assert_eq!(mixed["keys"].as_array().unwrap().len(), 2);
    let labelled = "content-type: Application/JSON; charset=utf-8\r\n";
    assert_eq!(take("", labelled, "{}").await.status, 200);
    take("?count=2", JSON, "{\"count\": 2}").await.is_problem(400, "repeated_parameter", "`count`");
    for count in ["0", "0.0", "-1", "-1.0", "1.5", "1e99", "\"3\"", "100001", "99999999999"] {
        let body = format!("{{\"count\": {count}}}");
        take("", JSON, &body).await.is_problem(400, "bad_count", "from 1 to 100000");
    }
    take("", JSON, "{\"cuont\": 3}").await.is_problem(400, "bad_body", "unknown field `cuont`");
    take("", JSON, "[3]").await.is_problem(400, "bad_body", "JSON object");
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    // The harness labels what says nothing else.
    for label in ["x-no-content-type: 1\r\n", form] {
        let refusal = take("", label, "{\"count\": 3}").await;
        refusal.is_problem(415, "unsupported_media_type", "Content-Type: application/json");
    }
    instance.put("ids", &json!({"kind": "snowflake", "layout": "javascript"})).await;
    let numbers =
        instance.send("POST", "/v1/spaces/ids/keys", JSON, "{\"numbers\": true}").await.json();
    assert!(numbers["keys"][0].is_u64(), "{numbers}");
}

#[tokio::test]
async fn a_caller_with_a_plus_is_found_as_it_was_given() {
    let instance = Instance::start().await;
    instance.put("orders", &json!({"audit": "key"})).await;
    assert_eq!(instance.call("POST", "/v1/spaces/orders/keys?caller=a+b").await.status, 200);
    for query in ["caller=a+b", "caller=a%20b"] {
        let used = instance.call("GET", &format!("/v1/spaces/orders/used?{query}")).await.json();
        assert_eq!(used["used"][0]["caller"], "a b", "{query}: {used}");
    }
    let other = instance.call("GET", "/v1/spaces/orders/used?caller=a%2Bb").await.json();
    assert_eq!(other["used"], json!([]));
}

#[tokio::test]
async fn parameters_that_nobody_knows_are_refused_everywhere() {
    let instance = Instance::start().await;
    for (method, path) in [
        ("GET", "/get-key"),
        ("HEAD", "/get-key"),
        ("POST", "/v1/spaces/default/keys"),
        ("GET", "/v1/spaces"),
        ("GET", "/v1/spaces/default"),
        ("PUT", "/v1/spaces/new"),
        ("GET", "/v1/spaces/default/keys/0000000"),
        ("DELETE", "/v1/spaces/default/keys/0000000"),
        ("GET", "/v1/spaces/default/aliases"),
        ("GET", "/v1/spaces/default/aliases/a"),
        ("DELETE", "/v1/spaces/default/aliases/a"),
        ("POST", "/v1/spaces/default/digests"),
        ("POST", "/v1/spaces/default/pool"),
        ("GET", "/v1/spaces/default/used"),
        ("GET", "/v1/leases"),
        ("GET", "/v1/instances"),
    ] {
        let answer = instance.call(method, &format!("{path}?x=1")).await;
        if method == "HEAD" {
            assert_eq!((answer.status, answer.body.as_str()), (400, ""));
            continue;
        }
        answer.is_problem(400, "unknown_parameter", "unknown parameter `x`; expected");
    }
    // The owner of a new alias is in the body: here it would be overlooked.
    let alias = instance.call("PUT", "/v1/spaces/default/aliases/a?owner=me").await;
    alias.is_problem(400, "unknown_parameter", "unknown parameter `owner`; expected none");
    instance.call("GET", "/v1/spaces/default/aliases/a").await.is_problem(
        404,
        "unknown_alias",
        "a",
    );
    assert_eq!(instance.call("GET", "/v1/spaces/new").await.status, 404);
}

#[tokio::test]
async fn what_is_wrong_is_said_in_plain_words() {
    let instance = Instance::start().await;
    let get = async |path: &str| instance.call("GET", path).await;
    let time = "must be a time such as 2026-11-16T00:00:00Z";
    get("/v1/spaces/default/used?from=x").await.is_problem(400, "bad_parameter", time);
    get("/v1/spaces/default/used?to=2026").await.is_problem(400, "bad_parameter", time);
    for name in ["from", "to"] {
        let used = async |time: &str| get(&format!("/v1/spaces/default/used?{name}={time}")).await;
        used("2026-11-16T00:00:00Z%5BUTC%5D").await.is_problem(400, "bad_parameter", time);
        // Later than the clock of the program reaches, and a valid `date-time`.
        let last = used("9999-12-31T23:59:59Z").await;
        assert_eq!(last.status, 200, "{}", last.body);
    }
    let nobody = "`caller` must not be empty; leave it out";
    get("/v1/spaces/default/used?caller=").await.is_problem(400, "bad_parameter", nobody);
    let limit = "`limit` must be a whole number from 1 to 1000";
    for text in ["x", "", "0", "1.5", "%2B5", "99999999999"] {
        get(&format!("/v1/leases?limit={text}")).await.is_problem(400, "bad_parameter", limit);
    }
    get("/v1/leases?limit=1&limit=2").await.is_problem(400, "repeated_parameter", "given twice");
    get("/nothing").await.is_problem(404, "not_found", "no such path: /nothing. See /docs");
    let put = async |body: &str| instance.send("PUT", "/v1/spaces/a", JSON, body).await;
    put("{\"epoch\": \"x\"}").await.is_problem(400, "bad_body", "`epoch` must be a time such as");
    let length = "`length` must be a whole number from 0 to 20, not 300";
    put("{\"length\": 300}").await.is_problem(400, "bad_body", length);
    let kinds = "`kind` must be one of `shuffled`, `sequential`, `pooled`, `digest`";
    put("{\"kind\": 1}").await.is_problem(400, "bad_body", kinds);
    let broken = "not valid JSON: there is no colon between a name and its value, at line 1";
    put("{\"kind\" 1}").await.is_problem(400, "bad_body", broken);
    let digest =
        async |body: &str| instance.send("POST", "/v1/spaces/default/digests", JSON, body).await;
    let inputs = "`inputs` must be a list of strings, not [1]";
    digest("{\"inputs\": [1]}").await.is_problem(400, "bad_body", inputs);
    for body in ["[\"a\"]", "\"a\"", "3", "null"] {
        digest(body).await.is_problem(400, "bad_body", "JSON object");
        let path = "/v1/spaces/default/aliases/a";
        let alias = instance.send("PUT", path, JSON, body).await;
        alias.is_problem(400, "bad_body", "JSON object");
    }
}
