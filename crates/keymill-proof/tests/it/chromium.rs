//! A real browser, Debian's Chromium, with pages that mean harm: they take nothing and change nothing, neither while
//! there are no tokens nor beside a session.
//!
//! Each page says at its end what became of its requests, and the server's log shows that they have arrived:
//! a page that does nothing would pass otherwise. The last control is a server that allows the page's origin.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use keymill_proof::backend::{Missing, unless_missing};
use keymill_proof::proxy::Proxy;
use keymill_proof::{Answer, Client, Deployment, Server};
use serde_json::Value;

use super::{get, json, put};

/// How long a browser may take for a page.
const TIME_MAX: Duration = Duration::from_secs(120);

/// Instead of a token, for a server that needs none.
const NO_TOKEN: &str = "";

const TICKETS: &str = r#"{"kind": "sequential", "alphabet": "decimal", "length": 0}"#;

/// Forms, images, `fetch` and beacons at the server `{server}`; what became of the last ones is told at the end.
const ATTACK: &str = r#"<!doctype html><title>evil</title>
<p id=said>not yet</p>
<iframe name=first></iframe><iframe name=second></iframe><iframe name=third></iframe>
<form method=post target=first action="{server}/v1/spaces/tickets/keys?count=1000"></form>
<form method=post target=second action="{server}/v1/spaces/coupons/pool" enctype=text/plain>
  <input name=evil1 value=evil1></form>
<form method=get target=third action="{server}/get-key"><input name=space value=tickets></form>
<img src="{server}/get-key?space=tickets">
<link rel=stylesheet href="{server}/get-key?space=tickets">
<script>
const json = {"content-type": "application/json"};
const requests = [
  ["/v1/spaces/tickets/keys?count=1000", {method: "POST", mode: "no-cors"}],
  ["/get-key?space=tickets", {mode: "no-cors"}],
  ["/get-key?space=tickets", {}],
  ["/v1/spaces/coupons/pool", {method: "POST", mode: "no-cors", body: "evil456\n"}],
  ["/v1/spaces/tickets/keys", {method: "POST", headers: json, body: "{\"count\": 1000}"}],
  ["/v1/spaces/evil", {method: "PUT", headers: json, body: "{}"}],
  ["/v1/spaces/default/aliases/evil", {method: "PUT"}],
  ["/v1/spaces/default/aliases/sale", {method: "DELETE"}],
  ["/v1/tokens", {method: "POST", headers: json, body: "{\"name\": \"evil\", \"allow\": [\"admin:*\"]}"}],
];
// The page is loaded when its frames are.
for (const form of document.forms) form.submit();
onload = async () => {
  const told = [];
  for (const [path, options] of requests) {
    const all = {...options, credentials: "{credentials}"};
    try { told.push((await fetch("{server}" + path, all)).type); } catch { told.push("refused"); }
  }
  navigator.sendBeacon("{server}/v1/spaces/tickets/keys?count=1000", "");
  document.getElementById("said").textContent = "done: " + told.join(" ");
};
</script>"#;

/// Requests to the page's own origin, which is led to the server meanwhile.
const REBOUND: &str = r#"<!doctype html><title>evil</title>
<p id=said>not yet</p>
<script>
const json = {"content-type": "application/json"};
const requests = [
  ["GET", "/healthz"], ["GET", "/get-key?space=tickets"], ["POST", "/v1/spaces/tickets/keys?count=1000"],
  ["GET", "/v1/spaces"], ["GET", "/v1/tokens"], ["GET", "/docs"], ["GET", "/metrics"],
  ["PUT", "/v1/spaces/evil", "{}"], ["DELETE", "/v1/spaces/default/aliases/sale"],
  ["POST", "/v1/tokens", "{\"name\": \"evil\", \"allow\": [\"admin:*\"]}"],
];
const is_led_there = async () => {
  try { return await (await fetch("/healthz")).text() === "ok\n"; } catch { return false; }
};
onload = async () => {
  // A connection that was opened together with the first one may still lead elsewhere.
  for (let tries = 0; tries < 50 && !await is_led_there(); tries++);
  const told = [];
  for (const [method, path, body] of requests) {
    const answer = await fetch(path, {method, body, headers: body ? json : {}});
    const text = await answer.text();
    told.push(answer.status + ":" + (text.match(/"code":"(\w+)"/) || [, "none"])[1]);
  }
  document.getElementById("said").textContent = "done: " + told.join(" ");
};
</script>"#;

#[test]
fn a_page_of_another_origin_takes_nothing_and_changes_nothing() {
    let Some(deployment) = beside_chromium() else { return };
    let server = start(&deployment, &[]);
    let evil = serve(attack(&server, "same-origin"), |_| {});
    let before = everything(&server, NO_TOKEN);
    let number = ticket(&server, NO_TOKEN);
    // Another port of the same host is the same site to a browser; another name of the host is another site.
    for host in ["127.0.0.1", "localhost"] {
        let dom = browse(&deployment, &format!("http://{host}:{evil}/"), &[]);
        // Opaque is an answer that the page cannot read; what needs to be asked for first was refused.
        let told = "done: opaque opaque refused opaque refused refused refused refused refused";
        assert!(dom.contains(told), "{host}: {dom}\n{}", server.log());
    }
    assert_eq!(ticket(&server, NO_TOKEN), number + 1, "keys were taken in between");
    assert_eq!(everything(&server, NO_TOKEN), before, "something was taken or changed");
    for arrived in [
        "method=POST path=\"/v1/spaces/tickets/keys\" status=403",
        "method=POST path=\"/v1/spaces/coupons/pool\" status=403",
        "method=GET path=\"/get-key\" status=403",
        "method=OPTIONS path=\"/v1/spaces/evil\" status=405",
        "method=OPTIONS path=\"/v1/tokens\" status=405",
    ] {
        server.log_with(arrived);
    }
    let log = server.log();
    for done in ["/pool\" status=200", "/keys\" status=200", "/evil\" status=201"] {
        assert!(!log.contains(done), "{done}: {log}");
    }
}

/// The control: nothing but the server's refusals keeps that page from it.
#[test]
fn the_same_page_does_harm_where_its_origin_is_allowed() {
    let Some(deployment) = beside_chromium() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let server = start(&deployment, &[("KEYMILL_ALLOWED_ORIGINS", &origin)]);
    let page = attack(&server, "same-origin");
    // A first token would end the harm.
    let page: Vec<&str> = page.lines().filter(|line| !line.contains("/v1/tokens")).collect();
    serve_on(listener, page.join("\n"), |_| {});
    let number = ticket(&server, NO_TOKEN);
    let dom = browse(&deployment, &origin, &[]);
    assert!(
        dom.contains("done: opaque opaque cors opaque cors cors cors"),
        "{dom}\n{}",
        server.log()
    );
    assert!(ticket(&server, NO_TOKEN) > number + 1_000, "the form took keys");
    assert_eq!(get(&server, "/v1/spaces/evil").status, 200, "a keyspace was made");
    let coupons = get(&server, "/v1/spaces/coupons");
    assert!(coupons.text().contains("\"available\":1"), "{}", coupons.text());
}

/// Cookies are sent to every port of a host, so that a page on another port has the browser send that of a session.
#[test]
fn a_page_on_another_port_can_do_nothing_with_a_session() {
    let Some(deployment) = beside_chromium() else { return };
    let server = start(&deployment, &[]);
    let token = deployment.run("d0", &["token", "create", "admin", "--allow", "admin:*"]);
    let token = token.trim();
    let before = everything(&server, token);
    let number = ticket(&server, token);
    let cookie = sign_in(&server, token);
    let (witness_of, witness) = mpsc::channel();
    let witness_port = serve("anything".to_owned(), move |head: &[String]| {
        let _ = witness_of.send(head.to_vec());
    });
    // The browser has the cookie as if somebody had signed in with it; another port is asked for what it sends.
    let page = format!(
        "<script>document.cookie = '{cookie}; path=/; samesite=strict';\
         new Image().src = 'http://127.0.0.1:{witness_port}/';</script>{}",
        attack(&server, "include")
    );
    let evil = serve(page, |_| {});
    let dom = browse(&deployment, &format!("http://127.0.0.1:{evil}/"), &[]);
    let told = "done: opaque opaque refused opaque refused refused refused refused refused";
    assert!(dom.contains(told), "{dom}\n{}", server.log());
    let head = witness.recv_timeout(TIME_MAX).expect("the browser has asked");
    assert!(head.iter().any(|line| line.contains(&cookie)), "the cookie was not sent: {head:?}");
    assert_eq!(ticket(&server, token), number + 1, "keys were taken in between");
    assert_eq!(everything(&server, token), before, "something was taken or changed");
    for arrived in [
        "method=POST path=\"/v1/spaces/tickets/keys\" status=403",
        "method=POST path=\"/v1/spaces/coupons/pool\" status=403",
        "method=GET path=\"/get-key\" status=403",
        "method=OPTIONS path=\"/v1/tokens\" status=401",
    ] {
        server.log_with(arrived);
    }
    // The same cookie, had a page of the server itself sent it.
    let headers = [("Cookie", cookie.as_str()), ("Sec-Fetch-Site", "same-origin")];
    let own = Client::new(server.address()).request("GET", "/v1/tokens", &headers, b"").unwrap();
    assert_eq!(own.status, 200, "{}", own.text());
}

/// As if the page's name led to another address than before: its origin is its own, and only its name is not.
#[test]
fn a_page_whose_name_is_made_to_lead_here_reads_nothing_and_changes_nothing() {
    let Some(deployment) = beside_chromium() else { return };
    let server = start(&deployment, &[]);
    let port = server.address().port();
    let before = everything(&server, NO_TOKEN);
    let number = ticket(&server, NO_TOKEN);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Arc::new(Proxy::start(listener.local_addr().unwrap().port()));
    let leading = proxy.clone();
    // Before the page has arrived, its next connection leads to the server.
    serve_on(listener, REBOUND.to_owned(), move |_| leading.lead_to(port));
    let rules = "--host-resolver-rules=MAP evil.example 127.0.0.1";
    let dom = browse(&deployment, &format!("http://evil.example:{}/", proxy.port()), &[rules]);
    let told = format!("done: 200:none{}", " 403:foreign_host".repeat(9));
    assert!(dom.contains(&told), "{dom}\n{}", server.log());
    assert_eq!(ticket(&server, NO_TOKEN), number + 1, "keys were taken in between");
    assert_eq!(everything(&server, NO_TOKEN), before, "something was taken or changed");
}

#[test]
fn an_address_that_somebody_types_is_answered() {
    let Some(deployment) = beside_chromium() else { return };
    let server = start(&deployment, &[]);
    let number = ticket(&server, NO_TOKEN);
    for host in ["127.0.0.1", "localhost"] {
        let port = server.address().port();
        let dom = browse(&deployment, &format!("http://{host}:{port}/get-key?space=tickets"), &[]);
        assert!(dom.contains("<pre"), "{dom}");
        let docs = browse(&deployment, &format!("http://{host}:{port}/docs"), &[]);
        assert!(docs.contains("openapi.json"), "{docs}");
    }
    assert_eq!(ticket(&server, NO_TOKEN), number + 3, "two were taken by the browser");
}

/// A deployment where there is a Chromium, which CI must have.
fn beside_chromium() -> Option<Deployment> {
    let found = Command::new("chromium").arg("--version").output();
    unless_missing(found.map_err(|_| Missing("chromium".to_owned())))?;
    Some(Deployment::sqlite())
}

/// A server that logs every request, with keyspaces of several kinds and an alias.
fn start(deployment: &Deployment, variables: &[(&str, &str)]) -> Server {
    let mut spec = deployment.server("d0").env("KEYMILL_LOG_LEVEL", "keymill=debug");
    for (name, value) in variables {
        spec = spec.env(*name, *value);
    }
    let server = spec.start();
    put(&server, "tickets", TICKETS);
    put(&server, "coupons", r#"{"kind": "pooled"}"#);
    put(&server, "default/aliases/sale", "{}");
    server
}

/// The page that attacks a server; with `include`, its requests have the cookies of the server.
fn attack(server: &Server, credentials: &str) -> String {
    let address = format!("http://{}", server.address());
    ATTACK.replace("{server}", &address).replace("{credentials}", credentials)
}

/// The cookie of a new session, with its name.
fn sign_in(server: &Server, token: &str) -> String {
    let body = format!(r#"{{"token": "{token}"}}"#);
    let headers = [("Content-Type", "application/json")];
    let mut client = Client::new(server.address());
    let answer = client.request("POST", "/v1/session", &headers, body.as_bytes()).unwrap();
    let cookie = answer.header("set-cookie").unwrap_or_else(|| panic!("{}", answer.text()));
    cookie.split(';').next().unwrap().to_owned()
}

fn get_with(server: &Server, token: &str, path: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str())];
    let headers = if token == NO_TOKEN { &[][..] } else { &headers[..] };
    Client::new(server.address()).request("GET", path, headers, b"").unwrap()
}

/// The next number of the keyspace `tickets`.
fn ticket(server: &Server, token: &str) -> u64 {
    let taken = get_with(server, token, "/get-key?space=tickets");
    taken.text().parse().unwrap_or_else(|_| panic!("{}", taken.text()))
}

/// All that a page could change besides the tickets.
fn everything(server: &Server, token: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for path in [
        "/v1/spaces/default",
        "/v1/spaces/coupons",
        "/v1/spaces/default/aliases",
        "/v1/spaces/coupons/used",
        "/v1/tokens",
        "/v1/acts",
    ] {
        let answer = get_with(server, token, path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        all.push(json(&answer));
    }
    assert_eq!(get_with(server, token, "/v1/spaces/evil").status, 404);
    all
}

/// What a browser has made of a page in the end.
fn browse(deployment: &Deployment, url: &str, more: &[&str]) -> String {
    let profile = tempfile::tempdir_in(deployment.folder()).unwrap();
    let [dom, words] = ["dom", "words"].map(|name| profile.path().join(name));
    let mut browser = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-background-networking", "--virtual-time-budget=30000"])
        .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
        .args(more)
        .args(["--dump-dom", url])
        .stdin(Stdio::null())
        .stdout(File::create(&dom).unwrap())
        .stderr(File::create(&words).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + TIME_MAX;
    let status = loop {
        if let Some(status) = browser.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            browser.kill().unwrap();
            browser.wait().unwrap();
            panic!("the browser does not end: {}", read(&words));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}: {}", read(&words));
    read(&dom)
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}

/// Serves a page on a port of its own, for as long as the test runs.
fn serve(page: String, before: impl Fn(&[String]) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve_on(listener, page, before);
    port
}

/// The same on a given port; something is done with the head of each request before the page is sent.
fn serve_on(listener: TcpListener, page: String, before: impl Fn(&[String]) + Send + 'static) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A browser opens connections that it does not use.
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let _ = answer(stream, &page, &before);
        }
    });
}

fn answer(mut stream: TcpStream, page: &str, before: &impl Fn(&[String])) -> std::io::Result<()> {
    let lines = BufReader::new(stream.try_clone()?).lines();
    let mut head = Vec::new();
    for line in lines {
        head.push(line?);
        if head.last().is_some_and(String::is_empty) {
            break;
        }
    }
    let is_page = head.first().is_some_and(|request| request.starts_with("GET / "));
    let (status, body) = if is_page { ("200 OK", page) } else { ("404 Not Found", "") };
    if is_page {
        before(&head);
    }
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}
