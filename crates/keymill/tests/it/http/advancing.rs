//! An advance over HTTP: planned, confirmed, and beyond the keys in use.

use serde_json::json;

use super::{Answer, Instance};

#[tokio::test]
async fn an_advance_is_planned_first_and_done_once_it_is_confirmed() {
    let tickets = Tickets::start().await;
    // Nothing shows that keys were handed out, so nobody knows how far to go.
    tickets.advance("", "").await.is_problem(409, "wrong_kind", "(`to` over HTTP)");
    let plan = tickets.advance("?to=5000", "").await.json();
    assert_eq!(
        (&plan["done"], &plan["from"], &plan["next"]),
        (&json!(false), &json!(0), &json!(5_000))
    );
    assert_eq!(tickets.next().await, 0, "a plan changes nothing");
    for wrong in ["t", "", "true"] {
        let refused = tickets.advance(&format!("?to=5000&confirm={wrong}"), "").await;
        refused.is_problem(400, "unconfirmed", "confirm=tickets");
    }
    let done = tickets.advance("?to=5000&confirm=tickets", "").await.json();
    assert_eq!((&done["done"], &done["next"]), (&json!(true), &json!(5_000)));
    assert_eq!(tickets.next().await, 5_000);
    tickets.advance("?to=1000001", "").await.is_problem(400, "bad_definition", "ends at 1000000");
    for wrong in ["x", "-1", "9223372036854775808"] {
        let refused = tickets.advance(&format!("?to={wrong}"), "").await;
        refused.is_problem(400, "bad_parameter", "`to`");
    }
}

#[tokio::test]
async fn an_advance_goes_beyond_the_keys_in_the_body() {
    let tickets = Tickets::start().await;
    tickets.instance.call("PUT", "/v1/spaces/tickets/aliases/500000").await;
    let keys = "\u{feff}000007\r\n\n500000\n000149\n12345\n000003";
    let plan = tickets.advance("", keys).await;
    assert_eq!(plan.status, 200, "{}", plan.body);
    let plan = plan.json();
    assert_eq!((&plan["keys_read"], &plan["lines_ignored"]), (&json!(4), &json!(1)));
    assert_eq!(plan["highest"][0], json!({"key": "000149", "ordinal": 149}), "{plan}");
    assert_eq!(plan["highest"].as_array().unwrap().len(), 3, "an alias does not count");
    let next = 149 + 1 + plan["in_flight"].as_u64().unwrap();
    assert_eq!(plan["next"], next);
    let done = tickets.advance("?confirm=tickets", keys).await.json();
    assert_eq!((&done["done"], &done["next"]), (&json!(true), &json!(next)));
    tickets.advance("", "no key\n").await.is_problem(400, "bad_definition", "no generated key");
    tickets.advance("", "no key\n").await.is_problem(400, "bad_definition", "`to` over HTTP");
    // So has a file of blank lines.
    tickets.advance("", "\n").await.is_problem(400, "bad_definition", "no generated key");
    let path = "/v1/spaces/tickets/advance";
    let json = tickets.instance.send("POST", path, "", r#"{"to": 5}"#).await;
    json.is_problem(415, "unsupported_media_type", "text/plain");
}

#[tokio::test]
async fn digests_are_not_advanced_unless_their_inputs_come_again() {
    let instance = Instance::start().await;
    instance.put("urls", &json!({"kind": "digest"})).await;
    let advance =
        async |query: &str| instance.call("POST", &format!("/v1/spaces/urls/advance{query}")).await;
    advance("").await.is_problem(409, "wrong_kind", "`inputs_again=true` over HTTP");
    advance("?inputs_again=yes").await.is_problem(400, "bad_parameter", "true or false");
    assert_eq!(advance("?inputs_again=true").await.json()["done"], false);
    let done = advance("?inputs_again=true&confirm=urls").await;
    assert_eq!(done.json()["done"], true, "{}", done.body);
}

#[tokio::test]
async fn a_snowflake_keyspace_says_when_it_has_ids_again() {
    let instance = Instance::start().await;
    instance.put("ids", &json!({"kind": "snowflake"})).await;
    let plan = instance.call("POST", "/v1/spaces/ids/advance").await.json();
    let resumes: jiff::Timestamp = plan["resumes_at"].as_str().unwrap().parse().unwrap();
    let wait = resumes.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((3_000..=3_700).contains(&wait), "the longest possible window: {plan}");
}

/// Numbers of six digits, of which none was handed out.
struct Tickets {
    instance: Instance,
}

impl Tickets {
    async fn start() -> Tickets {
        let instance = Instance::start().await;
        let spec = json!({"kind": "sequential", "alphabet": "decimal", "length": 6});
        assert_eq!(instance.put("tickets", &spec).await.status, 201);
        Tickets { instance }
    }

    async fn advance(&self, query: &str, keys: &str) -> Answer {
        let plain = if keys.is_empty() { "" } else { "content-type: text/plain\r\n" };
        let path = format!("/v1/spaces/tickets/advance{query}");
        self.instance.send("POST", &path, plain, keys).await
    }

    async fn next(&self) -> u64 {
        let shown = self.instance.call("GET", "/v1/spaces/tickets").await.json();
        shown["next"].as_u64().unwrap()
    }
}
