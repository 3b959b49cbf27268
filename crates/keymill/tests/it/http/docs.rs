//! The documentation page: what it is served as, and what it may load.

use std::process::Command;

use serde_json::Value;

use super::{Answer, Instance};

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

#[tokio::test]
async fn the_page_its_style_and_its_script_are_served_with_their_types_and_a_strict_policy() {
    let instance = Instance::start().await;
    for (path, content_type) in [
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/style.css", "text/css; charset=utf-8"),
        ("/docs/script.js", "text/javascript; charset=utf-8"),
    ] {
        let answer = instance.call("GET", path).await;
        assert_eq!(answer.status, 200, "{path}");
        has_header(&answer, "content-type", content_type);
        has_header(&answer, "content-security-policy", POLICY);
        has_header(&answer, "x-content-type-options", "nosniff");
        has_header(&answer, "cache-control", "no-cache");
        assert!(answer.body.len() > 1_000, "{path} has only {} bytes", answer.body.len());
    }
    instance.call("GET", "/docs/other.js").await.is_problem(404, "not_found", "/docs/other.js");
}

#[tokio::test]
async fn the_page_needs_nothing_that_its_policy_forbids() {
    let instance = Instance::start().await;
    let page = instance.call("GET", "/docs").await.body;
    assert_eq!(page.matches("<script").count(), 1, "an inline script would not run");
    assert!(page.contains("<script src=\"/docs/script.js\" defer></script>"));
    assert!(page.contains("<link rel=\"stylesheet\" href=\"/docs/style.css\">"));
    for inline in ["<style", " style=", " onclick=", " onload=", "javascript:", "<base", "<img"] {
        assert!(!page.contains(inline), "{inline}");
    }
    let style = instance.call("GET", "/docs/style.css").await.body;
    assert!(!style.contains("url(") && !style.contains("@import"));
    let script = instance.call("GET", "/docs/script.js").await.body;
    for inline in ["eval(", "new Function", "innerHTML", ".style."] {
        assert!(!script.contains(inline), "{inline}");
    }
    for text in [page, style] {
        assert!(!text.contains("//example") && !text.contains("https:"), "another host: {text}");
    }
}

#[tokio::test]
async fn the_page_says_what_to_do_about_an_error_without_any_script() {
    let instance = Instance::start().await;
    let page = instance.call("GET", "/docs").await.body;
    assert!(!page.contains("<!-- codes -->"), "the table was not put in");
    let problem = instance.call("GET", "/v1/spaces/nowhere").await.json();
    let row = format!("<tr id=\"code-{}\">", problem["code"].as_str().unwrap());
    let row = page.split(&row).nth(1).unwrap().split("</tr>").next().unwrap();
    assert!(row.contains("<td>404</td>"), "{row}");
    assert!(row.contains("create it with <code>PUT /v1/spaces/{space}</code>"), "{row}");
    // The example of a problem has the fields of a real one.
    let example = page.split("aria-label=\"An error\">").nth(1).unwrap().split("</pre>").next();
    let example: Value = serde_json::from_str(example.unwrap()).unwrap();
    let fields = |problem: &Value| problem.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&example), fields(&problem));
}

/// The script runs in node, in a document with no more than it needs: every operation is opened, and takes are
/// filled in, confirmed and sent.
#[tokio::test]
async fn the_script_shows_every_operation_and_sends_what_the_reader_fills_in() {
    if Command::new("node").arg("--version").output().is_err() {
        eprintln!(
            "\n*** NOT TESTED: node is missing on this machine; it runs the script of /docs ***\n"
        );
        return;
    }
    let instance = Instance::start().await;
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/http/docs_reader.js");
    let url = format!("http://{}", instance.address);
    // On another thread: this one accepts the connections.
    let run = move || Command::new("node").args([reader, &url]).output().unwrap();
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Asserts that a header has exactly this value. Heads are in small letters, and so are the values here.
#[track_caller]
fn has_header(answer: &Answer, name: &str, value: &str) {
    let line = format!("{name}: {value}");
    assert!(answer.head.lines().any(|found| found == line), "no `{line}` in\n{}", answer.head);
}
