//! Who is on record: the token that took a key, that owns an alias, that administered; and callers without one.

use keymill::access::AccessSettings;
use keymill::access::rights::Grants;
use serde_json::{Value, json};

use super::{Answer, Instance, settled};

#[tokio::test]
async fn the_token_is_the_caller_and_what_callers_say_is_kept_below_it() {
    let known = Known::start().await;
    let (admin, shop) = (&known.admin, &known.shop);
    known.allow_anonymous(&["take:noted"]);
    for (token, method, path, body, caller) in [
        (shop, "POST", "/v1/spaces/noted/keys", "", "shop"),
        (shop, "GET", "/get-key?space=noted", "", "shop"),
        (shop, "POST", "/v1/spaces/noted/keys?caller=alice", "", "shop/alice"),
        (shop, "POST", "/v1/spaces/noted/keys", r#"{"caller":"alice"}"#, "shop/alice"),
        // Nobody passes for another.
        (shop, "POST", "/v1/spaces/noted/keys?caller=mall", "", "shop/mall"),
        (shop, "POST", "/v1/spaces/noted/keys?caller=mall/bob", "", "shop/mall/bob"),
        (shop, "POST", "/v1/spaces/noted/keys?caller=/", "", "shop//"),
        // But for who administers the keyspace.
        (admin, "POST", "/v1/spaces/noted/keys?caller=mall/bob", "", "mall/bob"),
        (admin, "POST", "/v1/spaces/noted/keys", "", "admin"),
        (&known.keeper, "POST", "/v1/spaces/noted/keys?caller=bob", "", "bob"),
        (&String::new(), "POST", "/v1/spaces/noted/keys", "", "anonymous"),
        (&String::new(), "POST", "/v1/spaces/noted/keys?caller=shop", "", "anonymous/shop"),
    ] {
        let taken = known.settled(token, method, path, body).await;
        assert_eq!(taken.status, 200, "{path}: {}", taken.body);
        let key = match serde_json::from_str::<Value>(&taken.body) {
            Ok(taken) if taken.is_object() => taken["keys"][0].as_str().unwrap().to_owned(),
            _ => taken.body,
        };
        let used = known.instance.call_as(admin, "GET", "/v1/spaces/noted/used?limit=1000").await;
        let used = used.json();
        let row = used["used"].as_array().unwrap().iter().find(|row| row["key"] == key.as_str());
        assert_eq!(row.unwrap()["caller"], caller, "{method} {path} {body}");
    }
    // And they are found by it.
    let path = "/v1/spaces/noted/used?caller=shop/alice";
    let found = known.instance.call_as(admin, "GET", path).await.json();
    assert_eq!(found["used"].as_array().unwrap().len(), 2, "{found}");
}

#[tokio::test]
async fn the_token_owns_its_aliases_and_nobody_else_removes_them() {
    let known = Known::start().await;
    let (admin, shop, mall) = (&known.admin, &known.shop, &known.mall);
    let put = async |token: &str, alias: &str, owner: &str| {
        let body = json!({"owner": owner}).to_string();
        known.send(token, "PUT", &format!("/v1/spaces/noted/aliases/{alias}"), &body).await
    };
    for (token, alias, said, owner) in [
        (shop, "one", "", "shop"),
        (shop, "two", "alice", "shop/alice"),
        (shop, "three", "mall", "shop/mall"),
        (admin, "four", "mall/bob", "mall/bob"),
        (admin, "five", "", "admin"),
    ] {
        let made = put(token, alias, said).await;
        assert_eq!((made.status, &made.json()["owner"]), (201, &json!(owner)), "{}", made.body);
        assert_eq!(put(token, alias, said).await.status, 200, "it may ask again");
    }
    put(mall, "two", "alice").await.is_problem(409, "taken", "`two`");
    let delete = async |token: &str, alias: &str, owner: &str| {
        let path = format!("/v1/spaces/noted/aliases/{alias}{owner}");
        known.send(token, "DELETE", &path, "").await
    };
    for owner in ["", "?owner=alice", "?owner=shop/alice", "?owner=../shop/alice"] {
        delete(mall, "two", owner).await.is_problem(409, "taken", "`two`");
    }
    assert_eq!(delete(shop, "two", "?owner=alice").await.status, 204);
    assert_eq!(delete(mall, "four", "?owner=bob").await.status, 204);
    // Who administers names the owner.
    delete(admin, "one", "").await.is_problem(409, "taken", "`one`");
    assert_eq!(delete(admin, "one", "?owner=shop").await.status, 204);
}

#[tokio::test]
async fn callers_without_a_token_may_do_what_the_settings_allow_and_nothing_else() {
    let known = Known::start().await;
    let status = async |method: &str, path: &str| known.settled("", method, path, "").await.status;
    assert_eq!(status("POST", "/v1/spaces/noted/keys").await, 401);
    known.allow_anonymous(&["take:noted,links-*", "read:links-*"]);
    known.instance.service.ensure_space("links-1", &Default::default()).await.unwrap();
    for (method, path, expected) in [
        ("POST", "/v1/spaces/noted/keys", 200),
        ("GET", "/get-key?space=noted", 200),
        ("POST", "/v1/spaces/links-1/keys", 200),
        ("GET", "/v1/spaces/links-1", 200),
        ("GET", "/get-key", 401),
        ("POST", "/v1/spaces/default/keys", 401),
        ("GET", "/v1/spaces/noted", 401),
        ("GET", "/v1/spaces", 401),
        ("PUT", "/v1/spaces/links-1", 401),
        ("PUT", "/v1/spaces/links-1/aliases/a", 401),
        ("GET", "/v1/tokens", 401),
        ("GET", "/v1/spaces/nope", 401),
    ] {
        assert_eq!(status(method, path).await, expected, "{method} {path}");
    }
    // A token that does not allow it is refused, whatever it would be allowed without.
    let refused = known.settled(&known.shop, "POST", "/v1/spaces/links-1/keys", "").await;
    refused.is_problem(403, "forbidden", "the token does not allow this");
    // A wrong token is not none.
    let wrong = known.instance.call_as("km_wrong", "POST", "/v1/spaces/noted/keys").await;
    wrong.is_problem(401, "unauthorized", "mistyped");
    known.allow_anonymous(&[]);
    assert_eq!(status("POST", "/v1/spaces/noted/keys").await, 401);
}

#[tokio::test]
async fn what_administrators_do_is_on_record_and_what_they_only_try_is_not() {
    let known = Known::start().await;
    let (admin, shop) = (&known.admin, &known.shop);
    let acts = async || {
        let page = known.instance.call_as(admin, "GET", "/v1/acts?limit=1000").await.json();
        page["acts"].as_array().unwrap().clone()
    };
    let before = acts().await.len();
    let json = "content-type: application/json\r\n";
    let plain = "content-type: text/plain\r\n";
    for (token, method, path, headers, body, status) in [
        (admin, "PUT", "/v1/spaces/codes", json, r#"{"kind":"pooled"}"#, 201),
        (admin, "POST", "/v1/spaces/codes/pool", plain, "mine123\n", 200),
        (admin, "POST", "/v1/tokens", json, r#"{"name":"ci","allow":["read:*"]}"#, 201),
        (admin, "POST", "/v1/tokens/ci/rotate", "", "", 200),
        (admin, "DELETE", "/v1/tokens/ci", "", "", 204),
        (&known.keeper, "PUT", "/v1/spaces/noted", json, r#"{"audit":"key"}"#, 200),
        // None of these.
        (admin, "PUT", "/v1/spaces/bad", json, r#"{"length":99}"#, 400),
        (admin, "DELETE", "/v1/tokens/ci", "", "", 404),
        // Named like an import, which may be refused half-way.
        (admin, "DELETE", "/v1/tokens/pool", "", "", 404),
        (admin, "PATCH", "/v1/spaces/import", json, r#"{"audit":"key"}"#, 404),
        (shop, "PUT", "/v1/spaces/mine", json, "{}", 403),
        (shop, "DELETE", "/v1/tokens/mall", "", "", 403),
        (admin, "GET", "/v1/spaces", "", "", 200),
        (admin, "PUT", "/v1/spaces/noted/aliases/a", json, "{}", 201),
    ] {
        let answer = known.instance.send_as(token, method, path, headers, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
    }
    let done = acts().await.split_off(before);
    let told: Vec<(&str, &str)> = done
        .iter()
        .map(|act| (act["by"].as_str().unwrap(), act["what"].as_str().unwrap()))
        .collect();
    let expected = [
        ("admin", "PUT /v1/spaces/codes"),
        ("admin", "POST /v1/spaces/codes/pool"),
        ("admin", "POST /v1/tokens ci"),
        ("admin", "POST /v1/tokens/ci/rotate"),
        ("admin", "DELETE /v1/tokens/ci"),
        ("keeper", "PUT /v1/spaces/noted"),
    ];
    assert_eq!(told, expected);
    for act in &done {
        assert_eq!(act["from"], "127.0.0.1", "{act}");
        let at: jiff::Timestamp = act["at"].as_str().unwrap().parse().unwrap();
        let since = jiff::Timestamp::now().duration_since(at);
        assert!(since.abs() < jiff::SignedDuration::from_hours(1), "{act}");
    }
    let ids: Vec<u64> = done.iter().map(|act| act["id"].as_u64().unwrap()).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    // Page by page it is the same record.
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/acts?limit=2{after}");
        let page = known.instance.call_as(admin, "GET", &path).await.json();
        paged.extend(page["acts"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(paged, acts().await);
}

#[tokio::test]
async fn what_an_administrator_did_is_on_record_also_if_the_answer_reached_nobody() {
    use tokio::io::AsyncWriteExt;
    let known = Known::start().await;
    let admin = &known.admin;
    for number in 0..30 {
        let body = format!("{{\"name\":\"gone-{number}\",\"allow\":[\"read:*\"]}}");
        let request = format!(
            "POST /v1/tokens HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {admin}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = tokio::net::TcpStream::connect(known.instance.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        // Some leave before anything was read of it, some while it is being done.
        tokio::time::sleep(std::time::Duration::from_micros(number * 150)).await;
        drop(stream);
    }
    let begin = std::time::Instant::now();
    loop {
        let get = async |path: &str| known.instance.call_as(admin, "GET", path).await.json();
        let acts = get("/v1/acts?limit=1000").await;
        let acts = acts["acts"].as_array().unwrap();
        let is_on_record = |name: &str| {
            let what = format!("POST /v1/tokens {name}");
            acts.iter().any(|act| act["what"] == what.as_str())
        };
        let tokens = get("/v1/tokens?limit=1000").await;
        let mut names = tokens["tokens"].as_array().unwrap().iter().map(|it| &it["name"]);
        if names.all(|name| {
            !name.as_str().unwrap().starts_with("gone-") || is_on_record(name.as_str().unwrap())
        }) {
            assert!(acts.len() > 5, "none of them was made: {acts:?}");
            return;
        }
        assert!(begin.elapsed().as_secs() < 20, "a token is not on record: {tokens}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// An instance with tokens, and a keyspace in which every key is on record.
struct Known {
    instance: Instance,
    admin: String,
    shop: String,
    mall: String,
    /// Administers one keyspace alone.
    keeper: String,
}

impl Known {
    async fn start() -> Known {
        let instance = Instance::start().await;
        assert_eq!(instance.put("noted", &json!({"audit": "key"})).await.status, 201);
        let admin = instance.admin().await;
        let token = async |name: &str, allow: &[&str]| {
            instance.token_by(&admin, &json!({"name": name, "allow": allow})).await
        };
        let shop = token("shop", &["take:noted", "name:noted"]).await;
        let mall = token("mall", &["take:noted", "name:noted"]).await;
        let keeper = token("keeper", &["admin:noted"]).await;
        Known { instance, admin, shop, mall, keeper }
    }

    fn allow_anonymous(&self, allow: &[&str]) {
        let anonymous = Grants::parse(allow.iter().copied()).unwrap();
        self.instance.http.set_access(AccessSettings { anonymous, ..Default::default() });
    }

    /// A request, without a token where that is empty.
    async fn send(&self, token: &str, method: &str, path: &str, body: &str) -> Answer {
        let mut headers = String::new();
        if !token.is_empty() {
            headers += &format!("authorization: Bearer {token}\r\n");
        }
        if !body.is_empty() {
            headers += "content-type: application/json\r\n";
        }
        self.instance.send(method, path, &headers, body).await
    }

    /// The same, repeated while keys are on their way.
    async fn settled(&self, token: &str, method: &str, path: &str, body: &str) -> Answer {
        settled(async || self.send(token, method, path, body).await).await
    }
}
