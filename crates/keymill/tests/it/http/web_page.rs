//! The web page: what it is served as, how browsers keep it, what it may load, and the preview behind its form.
//!
//! What it does is tested in a browser: `crates/keymill-proof/page`.

use serde_json::{Value, json};

use super::{Answer, Instance};

const POLICY: &str = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'";

#[tokio::test]
async fn the_page_and_its_files_have_their_types_and_a_strict_policy() {
    let instance = Instance::start().await;
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/page/style.css", "text/css; charset=utf-8"),
        ("/page/script.js", "text/javascript; charset=utf-8"),
        ("/page/mark.svg", "image/svg+xml"),
    ] {
        let answer = instance.call("GET", path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some(content_type));
        assert_eq!(answer.header("cache-control"), Some("no-cache"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(answer.head.contains(POLICY), "{path}: {}", answer.head);
    }
    instance.call("GET", "/page/other.js").await.is_problem(404, "not_found", "/page/other.js");
}

#[tokio::test]
async fn files_are_kept_for_good_by_the_address_that_the_page_gives_them() {
    let instance = Instance::start().await;
    let page = instance.call("GET", "/").await;
    for start in ["/page/style.css?v=", "/page/script.js?v=", "/page/mark.svg?v="] {
        let at = page.body.find(start).unwrap_or_else(|| panic!("no {start}"));
        let address = page.body[at..].split('"').next().unwrap();
        let file = instance.call("GET", address).await;
        assert_eq!(file.status, 200, "{address}");
        let caching = file.header("cache-control");
        assert_eq!(caching, Some("public, max-age=31536000, immutable"), "{address}");
        // Another version of the server has another content behind the same path.
        let other = instance.call("GET", &format!("{start}0123456789abcdef")).await;
        assert_eq!(other.header("cache-control"), Some("no-cache"));
    }
}

#[tokio::test]
async fn what_a_browser_has_is_not_sent_again() {
    let instance = Instance::start().await;
    for path in ["/", "/page/style.css", "/page/script.js"] {
        let tag = instance.call("GET", path).await.header("etag").unwrap().to_owned();
        for known in [tag.clone(), format!("\"x\", W/{tag}")] {
            let headers = format!("if-none-match: {known}\r\n");
            let again = instance.send("GET", path, &headers, "").await;
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{path}");
            assert_eq!(again.header("etag"), Some(tag.as_str()));
        }
        let changed = instance.send("GET", path, "if-none-match: \"x\"\r\n", "").await;
        assert_eq!(changed.status, 200, "{path}");
    }
}

#[tokio::test]
async fn the_page_needs_nothing_that_its_policy_forbids_and_no_other_host() {
    let instance = Instance::start().await;
    let page = instance.call("GET", "/").await.body;
    assert_eq!(page.matches("<script").count(), 1, "an inline script would not run");
    for inline in ["<style", " style=", " onclick=", " onload=", "javascript:", "<base", "{{", "{%"]
    {
        assert!(!page.contains(inline), "{inline}");
    }
    let style = instance.call("GET", "/page/style.css").await.body;
    assert!(!style.contains("url(") && !style.contains("@import"));
    let script = instance.call("GET", "/page/script.js").await.body;
    for inline in
        ["eval(", "new Function", "innerHTML", "insertAdjacentHTML", ".style.", "document.write"]
    {
        assert!(!script.contains(inline), "{inline}");
    }
    let hosts = [&page, &style, &script].into_iter().flat_map(|text| text.split("://").skip(1));
    for host in hosts {
        let host: String = host.chars().take_while(|it| !"/\"'` ".contains(*it)).collect();
        assert!(["example.com", "www.w3.org"].contains(&host.as_str()), "another host: {host}");
    }
}

#[tokio::test]
async fn the_page_says_nothing_to_whoever_has_no_token_but_the_way_in() {
    let instance = Instance::start().await;
    let before = instance.call("GET", "/").await.body;
    instance.put("secret-plans", &json!({})).await;
    instance.admin().await;
    assert_eq!(instance.call("GET", "/").await.body, before);
    assert!(before.contains("id=\"sign-in\""));
}

#[tokio::test]
async fn a_preview_has_keys_like_those_of_the_keyspace() {
    let instance = Instance::start().await;
    for (settings, capacity, pattern) in [
        (json!({}), json!(3_521_614_606_208_u64), "xxxxxxx"),
        (json!({"kind": "sequential", "length": 3, "alphabet": "decimal"}), json!(1_000), "xxx"),
        (
            json!({"alphabet": "hex", "length": 8, "prefix": "a_", "group": 4}),
            json!(4_294_967_296_u64),
            "a_xxxx-xxxx",
        ),
        (json!({"kind": "pooled", "check": true}), json!(3_521_614_606_208_u64), "xxxxxxxx"),
        (json!({"kind": "digest", "length": 9}), json!("13537086546263552"), "xxxxxxxxx"),
        (
            json!({"kind": "uuid"}),
            json!("5316911983139663491615228241121378304"),
            "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
        ),
    ] {
        let preview = preview(&instance, &settings).await.json();
        assert_eq!(preview["capacity"], capacity, "{settings}");
        let keys = preview["keys"].as_array().unwrap();
        assert_eq!(keys.len(), 6, "{settings}");
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(shape_of(key.as_str().unwrap(), pattern), pattern, "{settings}: {key}");
            assert!(!keys[..at].contains(key), "{settings}: {key} is there twice");
        }
    }
}

#[tokio::test]
async fn a_preview_of_snowflake_ids_says_how_fast_and_until_when() {
    let instance = Instance::start().await;
    let preview = preview(&instance, &json!({"kind": "snowflake"})).await.json();
    assert_eq!(preview["rate_max"], 4_096_000);
    assert_eq!(preview["capacity"], "9223372036854775808");
    assert!(preview["runs_out_at"].as_str().unwrap().starts_with("2094-"), "{preview}");
    instance.put("ids", &json!({"kind": "snowflake"})).await;
    let taken = instance.call("POST", "/v1/spaces/ids/keys").await.json();
    let number = |key: &Value| key.as_str().unwrap().parse::<u64>().unwrap();
    let later = number(&taken["keys"][0]) - number(&preview["keys"][0]);
    assert!(later < 60_000 << 22, "within a minute of each other: {preview} {taken}");
}

#[tokio::test]
async fn a_preview_refuses_what_the_keyspace_would_be_refused_for_and_changes_nothing() {
    let instance = Instance::start().await;
    for settings in [
        json!({"length": 1}),
        json!({"alphabet": "bse62"}),
        json!({"kind": "uuid", "length": 4}),
        json!({"kind": "uuid", "audit": "key"}),
        json!({"start": 10, "kind": "uuid"}),
        json!({"kind": "snowflake", "epoch": "2199-01-01T00:00:00Z"}),
        json!({"step": 2}),
        json!({"lease_size_min": 0}),
        json!({"color": "red"}),
    ] {
        let (refused, created) =
            (preview(&instance, &settings).await, instance.put("it", &settings).await);
        assert_eq!(refused.status, 400, "{settings}: {}", refused.body);
        assert_eq!(refused.json()["detail"], created.json()["detail"], "{settings}");
    }
    preview(&instance, &json!({})).await;
    let spaces = instance.call("GET", "/v1/spaces").await.json();
    assert_eq!(spaces["spaces"].as_array().unwrap().len(), 1, "{spaces}");
}

#[tokio::test]
async fn no_two_previews_are_made_with_one_secret() {
    let instance = Instance::start().await;
    let keys = async || preview(&instance, &json!({})).await.json()["keys"].clone();
    assert_ne!(keys().await, keys().await);
}

async fn preview(instance: &Instance, settings: &Value) -> Answer {
    let json = "content-type: application/json\r\n";
    instance.send("POST", "/v1/preview", json, &settings.to_string()).await
}

/// A key with `x` in place of the letters and digits that may differ.
fn shape_of(key: &str, pattern: &str) -> String {
    let fixed = pattern.find('_').map_or(0, |at| at + 1);
    let any = key[fixed..].chars().map(|it| if it == '-' { '-' } else { 'x' });
    key[..fixed].chars().chain(any).collect()
}
