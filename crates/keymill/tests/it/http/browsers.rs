//! A web page in the operator's browser, while there are no tokens: it takes nothing and changes nothing.

use keymill::front::http::BrowserRules;
use serde_json::{Value, json};

use super::{Answer, Instance};

const JSON: &str = "application/json";
const PLAIN: &str = "text/plain";
const FORM: &str = "application/x-www-form-urlencoded";

/// Every request that takes or changes something: method, path, type and body.
const CHANGES: [(&str, &str, &str, &str); 15] = [
    ("GET", "/get-key", "", ""),
    ("GET", "/get-key?space=tickets", "", ""),
    ("POST", "/v1/spaces/tickets/keys", "", ""),
    ("POST", "/v1/spaces/tickets/keys?count=1000", FORM, ""),
    ("POST", "/v1/spaces/tickets/keys", JSON, r#"{"count":1000}"#),
    ("PUT", "/v1/spaces/evil", JSON, "{}"),
    ("PUT", "/v1/spaces/default/aliases/evil", JSON, "{}"),
    ("DELETE", "/v1/spaces/default/aliases/sale", "", ""),
    ("DELETE", "/v1/spaces/noted/keys/0000000", "", ""),
    ("POST", "/v1/spaces/urls/digests", JSON, r#"{"input":"evil"}"#),
    ("POST", "/v1/spaces/coupons/pool", PLAIN, "evil123\n"),
    ("POST", "/v1/tokens", JSON, r#"{"name":"evil","allow":["admin:*"]}"#),
    ("POST", "/v1/tokens/evil/rotate", JSON, "{}"),
    ("DELETE", "/v1/tokens/evil", "", ""),
    ("PATCH", "/v1/spaces/default", JSON, "{}"),
];

/// Requests that only read.
const READS: [&str; 6] = [
    "/v1/spaces",
    "/v1/spaces/default",
    "/v1/spaces/default/aliases",
    "/v1/tokens",
    "/metrics",
    "/openapi.json",
];

#[tokio::test]
async fn a_page_of_another_origin_takes_nothing_and_changes_nothing() {
    let browsed = Browsed::start().await;
    let before = browsed.everything().await;
    let number = browsed.ticket().await;
    for headers in [
        // As browsers of today send them: a form, `fetch`, an image, another port of this machine.
        "host: localhost:8080\r\norigin: https://evil.example\r\nsec-fetch-site: cross-site\r\n",
        "host: localhost:8080\r\nsec-fetch-site: cross-site\r\n",
        "host: localhost:8080\r\norigin: http://localhost:9090\r\nsec-fetch-site: same-site\r\n",
        "host: localhost:8080\r\nsec-fetch-site: same-site\r\n",
        "host: localhost:8080\r\norigin: null\r\nsec-fetch-site: cross-site\r\n",
        // What the browser says of the site decides.
        "host: localhost:8080\r\norigin: http://localhost:8080\r\nsec-fetch-site: cross-site\r\n",
        "host: localhost:8080\r\nsec-fetch-site: same-origin, cross-site\r\n",
        "host: localhost:8080\r\nsec-fetch-site: \r\n",
        // As older ones do.
        "host: localhost:8080\r\norigin: https://evil.example\r\n",
        "host: localhost:8080\r\norigin: null\r\n",
        "host: localhost:8080\r\norigin: \r\n",
        "host: localhost:8080\r\norigin: http://localhost:9090\r\n",
        "host: localhost:8080\r\norigin: http://localhost\r\n",
        "host: localhost:8080\r\norigin: http://localhost:8080.evil.example\r\n",
        "host: 127.0.0.1:8080\r\norigin: http://localhost:8080\r\n",
    ] {
        for (method, path, kind, body) in CHANGES {
            let refusal = browsed.send(method, path, headers, kind, body).await;
            assert_eq!(refusal.status, 403, "{method} {path}: {headers}");
            refusal.is_problem(403, "foreign_origin", "allowed_origins");
            assert!(!refusal.head.contains("access-control-"), "{}", refusal.head);
        }
    }
    assert_eq!(browsed.ticket().await, number + 1, "a key was taken in between");
    assert_eq!(browsed.everything().await, before, "something was taken or changed");
}

#[tokio::test]
async fn a_name_that_was_made_to_lead_here_is_refused_for_reading_as_well() {
    let browsed = Browsed::start().await;
    let before = browsed.everything().await;
    let number = browsed.ticket().await;
    let changes = CHANGES.map(|(method, path, kind, body)| (method, path, kind, body));
    let reads = READS.map(|path| ("GET", path, "", ""));
    for host in [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.",
        "10.0.0.1:8080",
        "192.168.0.7",
        "0.0.0.0:8080",
        "[::]:8080",
        "[2001:db8::1]:8080",
        "[::ffff:127.0.0.1]",
    ] {
        // The page's own origin is that name, so that nothing else gives it away.
        let own =
            format!("host: {host}\r\norigin: http://{host}\r\nsec-fetch-site: same-origin\r\n");
        for headers in [&own, &format!("host: {host}\r\n")] {
            for (method, path, kind, body) in changes.iter().chain(&reads) {
                let refusal = browsed.send(method, path, headers, kind, body).await;
                assert_eq!(refusal.status, 403, "{method} {path} at {host}: {}", refusal.body);
                refusal.is_problem(403, "foreign_host", host);
            }
        }
    }
    assert_eq!(browsed.ticket().await, number + 1, "a key was taken in between");
    assert_eq!(browsed.everything().await, before, "something was taken or changed");
}

#[tokio::test]
async fn programs_and_the_own_pages_are_served() {
    let browsed = Browsed::start().await;
    for headers in [
        // curl, by each name of this machine.
        "host: localhost\r\n",
        "host: LOCALHOST:8080\r\n",
        "host: 127.0.0.1:8080\r\n",
        "host: 127.8.9.10\r\n",
        "host: [::1]:8080\r\n",
        // The page at /docs, in browsers of today and in older ones; an address that somebody typed.
        "host: localhost:8080\r\norigin: http://localhost:8080\r\nsec-fetch-site: same-origin\r\n",
        "host: localhost:8080\r\nsec-fetch-site: same-origin\r\n",
        "host: localhost:8080\r\norigin: http://localhost:8080\r\n",
        "host: localhost:8080\r\nsec-fetch-site: none\r\n",
        // A proxy that asks for a password of its own.
        "host: localhost\r\nauthorization: Basic YTpi\r\n",
    ] {
        for (method, path) in
            [("GET", "/get-key?space=tickets"), ("POST", "/v1/spaces/tickets/keys")]
        {
            let number = browsed.ticket().await;
            assert_eq!(browsed.send(method, path, headers, "", "").await.status, 200, "{headers}");
            assert_eq!(browsed.ticket().await, number + 2, "{headers}");
        }
        let put = browsed.send("PUT", "/v1/spaces/default", headers, JSON, "{}").await;
        assert_eq!(put.status, 200, "{headers}: {}", put.body);
    }
}

#[tokio::test]
async fn a_page_of_another_origin_may_ask_what_only_reads_but_not_see_the_answer() {
    let browsed = Browsed::start().await;
    let headers =
        "host: localhost\r\norigin: https://evil.example\r\nsec-fetch-site: cross-site\r\n";
    for path in READS {
        let answer = browsed.send("GET", path, headers, "", "").await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.head.contains("access-control-"), "{path}: {}", answer.head);
    }
    let ask = "access-control-request-method: POST\r\n";
    let preflight = format!("{headers}{ask}");
    let refusal = browsed.send("OPTIONS", "/v1/spaces/tickets/keys", &preflight, "", "").await;
    assert!(refusal.status >= 400, "{}", refusal.head);
    assert!(!refusal.head.contains("access-control-"), "{}", refusal.head);
}

#[tokio::test]
async fn other_names_of_the_server_are_allowed_by_the_settings() {
    let browsed = Browsed::start().await;
    let take = async |host: &str| {
        let headers = format!("host: {host}\r\n");
        browsed.send("GET", "/get-key?space=tickets", &headers, "", "").await.status
    };
    assert_eq!(take("keys.example").await, 403);
    browsed.allow(&["keys.example", "2001:db8::1"], &[]);
    for host in ["keys.example", "Keys.Example:443", "[2001:db8::1]:8080", "localhost"] {
        assert_eq!(take(host).await, 200, "{host}");
    }
    for host in ["xkeys.example", "keys.example.evil.example", "sub.keys.example", "[2001:db8::2]"]
    {
        assert_eq!(take(host).await, 403, "{host}");
    }
    browsed.allow(&[], &[]);
    assert_eq!(take("keys.example").await, 403);
}

#[tokio::test]
async fn pages_of_an_allowed_origin_may_ask_and_read() {
    let browsed = Browsed::start().await;
    browsed.allow(&[], &["https://shop.example"]);
    let headers =
        "host: localhost:8080\r\norigin: https://shop.example\r\nsec-fetch-site: cross-site\r\n";
    let is_readable = |answer: &Answer| {
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://shop.example"));
        assert!(answer.header("vary").unwrap().contains("origin"), "{}", answer.head);
        let exposed = answer.header("access-control-expose-headers").unwrap();
        assert!(exposed.contains("retry-after") && exposed.contains("x-request-id"), "{exposed}");
        assert!(!answer.head.contains("access-control-allow-credentials"), "{}", answer.head);
    };
    let ask =
        "access-control-request-method: PUT\r\naccess-control-request-headers: content-type\r\n";
    let preflight = format!("{headers}{ask}");
    let answer = browsed.send("OPTIONS", "/v1/spaces/tickets/keys", &preflight, "", "").await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{}", answer.head);
    is_readable(&answer);
    let methods = answer.header("access-control-allow-methods").unwrap();
    assert!(["get", "post", "put", "delete"].iter().all(|it| methods.contains(it)), "{methods}");
    let allowed = answer.header("access-control-allow-headers").unwrap();
    assert!(allowed.contains("authorization") && allowed.contains("content-type"), "{allowed}");
    assert!(answer.header("access-control-max-age").is_some());
    let number = browsed.ticket().await;
    for (method, path) in [("GET", "/get-key?space=tickets"), ("POST", "/v1/spaces/tickets/keys")] {
        let taken = browsed.send(method, path, headers, "", "").await;
        assert_eq!(taken.status, 200, "{}", taken.body);
        is_readable(&taken);
    }
    assert_eq!(browsed.ticket().await, number + 3);
    // What is refused can be read, too.
    let unknown = browsed.send("GET", "/v1/spaces/nope", headers, "", "").await;
    unknown.is_problem(404, "unknown_space", "`nope`");
    is_readable(&unknown);
    // The server's name is still checked, and so is every other origin.
    for (host, origin) in [
        ("evil.example", "https://shop.example"),
        ("localhost", "http://shop.example"),
        ("localhost", "https://shop.example:8443"),
        ("localhost", "https://shop.example.evil.example"),
        ("localhost", "https://SHOP.example"),
        ("localhost", "null"),
    ] {
        let headers = format!("host: {host}\r\norigin: {origin}\r\n");
        let refusal = browsed.send("GET", "/get-key?space=tickets", &headers, "", "").await;
        assert_eq!(refusal.status, 403, "{headers}");
    }
    assert_eq!(browsed.ticket().await, number + 4);
}

#[tokio::test]
async fn probes_are_answered_by_whatever_name_or_address_they_come() {
    let browsed = Browsed::start().await;
    for host in ["evil.example", "10.0.0.1:8080", "[2001:db8::1]", "keymill.default.svc"] {
        for (method, path) in
            [("GET", "/healthz"), ("GET", "/readyz"), ("HEAD", "/healthz"), ("HEAD", "/readyz")]
        {
            for more in ["", "sec-fetch-site: cross-site\r\n", "authorization: Basic YTpi\r\n"] {
                let headers = format!("host: {host}\r\n{more}");
                let answer = browsed.send(method, path, &headers, "", "").await;
                assert_eq!(answer.status, 200, "{method} {path} at {host}: {}", answer.body);
            }
        }
    }
    // As a load balancer of old does.
    let answer = browsed.instance.ask("GET /healthz HTTP/1.0\r\n\r\n").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn what_is_wrong_is_not_told_under_a_foreign_name() {
    let browsed = Browsed::start().await;
    let take = browsed.instance.call("POST", "/v1/spaces/coupons/keys").await;
    assert_eq!(take.status, 409, "{}", take.body);
    let ready = async |headers: &str| {
        let answer = browsed.send("GET", "/readyz", headers, "", "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let codes = answer.json()["problems"].as_array().unwrap().clone();
        codes.iter().map(|problem| problem["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ready("host: localhost\r\n").await, ["pool_empty"]);
    for host in ["evil.example", "10.0.0.1:8080", "localhost.evil.example"] {
        assert_eq!(ready(&format!("host: {host}\r\n")).await, [] as [&str; 0], "{host}");
    }
    browsed.allow(&["keys.example"], &[]);
    assert_eq!(ready("host: keys.example\r\n").await, ["pool_empty"]);
}

#[tokio::test]
async fn a_key_is_not_taken_for_a_page_that_nobody_has_opened_yet() {
    let browsed = Browsed::start().await;
    let number = browsed.ticket().await;
    for advance in [
        "sec-purpose: prefetch\r\n",
        "sec-purpose: prefetch;prerender\r\n",
        "purpose: prefetch\r\n",
        "purpose: prerender\r\n",
    ] {
        for rest in ["", "sec-fetch-site: none\r\n", "sec-fetch-site: same-origin\r\n"] {
            let headers = format!("host: localhost:8080\r\n{rest}{advance}");
            for path in ["/get-key", "/get-key?space=tickets"] {
                let refused = browsed.send("GET", path, &headers, "", "").await;
                refused.is_problem(403, "prefetch", "in advance");
            }
        }
    }
    assert_eq!(browsed.ticket().await, number + 1, "a key was taken in between");
    // When the page is opened after all, the browser asks again.
    let typed = "host: localhost:8080\r\nsec-fetch-site: none\r\nsec-fetch-mode: navigate\r\n\
                 user-agent: Mozilla/5.0 (X11; Linux x86_64)\r\n";
    let opened = browsed.send("GET", "/get-key?space=tickets", typed, "", "").await;
    assert_eq!((opened.status, opened.body), (200, (number + 2).to_string()));
    // Reading ahead costs nothing.
    let ahead = "host: localhost:8080\r\nsec-purpose: prefetch\r\n";
    assert_eq!(browsed.send("GET", "/docs", ahead, "", "").await.status, 200);
}

#[tokio::test]
async fn a_body_needs_its_type() {
    let browsed = Browsed::start().await;
    let before = browsed.everything().await;
    let host = "host: localhost\r\n";
    let with_body = CHANGES.iter().filter(|it| !it.3.is_empty() && it.0 != "PATCH");
    for (method, path, right, body) in with_body.clone() {
        let others = ["", FORM, "multipart/form-data; boundary=x", "text/html", JSON, PLAIN];
        for kind in others.into_iter().filter(|kind| kind != right) {
            let refusal = browsed.send(method, path, host, kind, body).await;
            let says = format!("Content-Type: {right}");
            assert_eq!(refusal.status, 415, "{method} {path} as {kind}: {}", refusal.body);
            refusal.is_problem(415, "unsupported_media_type", &says);
        }
    }
    assert_eq!(browsed.everything().await, before, "something was taken or changed");
    let with_charset = [
        ("PUT", "/v1/spaces/default", "Application/JSON; charset=utf-8", "{}", 200),
        ("POST", "/v1/spaces/coupons/pool", "TEXT/plain;charset=utf-8", "mine123\n", 200),
        // Without a body there is nothing to label.
        ("PUT", "/v1/spaces/default", "", "", 200),
        ("POST", "/v1/spaces/coupons/pool", "", "", 200),
    ];
    for (method, path, kind, body, status) in with_charset {
        let answer = browsed.send(method, path, host, kind, body).await;
        assert_eq!(answer.status, status, "{method} {path} as {kind}: {}", answer.body);
    }
}

/// With tokens, a browser is still no way in: not to what callers without a token may do.
#[tokio::test]
async fn what_callers_without_a_token_may_do_no_page_may_do() {
    let browsed = Browsed::start().await;
    let admin = browsed.instance.admin().await;
    let anonymous = keymill::access::rights::Grants::parse(["take:tickets"]).unwrap();
    let settings = keymill::access::AccessSettings { anonymous, ..Default::default() };
    browsed.instance.http.set_access(settings);
    let take =
        async |headers: &str| browsed.send("GET", "/get-key?space=tickets", headers, "", "").await;
    assert_eq!(take("host: localhost\r\n").await.status, 200);
    let page = "host: localhost\r\norigin: https://evil.example\r\n";
    take(page).await.is_problem(403, "foreign_origin", "");
    let rebound = "host: evil.example\r\n";
    take(rebound).await.is_problem(403, "foreign_host", "use a token");
    // No browser adds a token by itself, so whoever has one may come from anywhere.
    let with = format!("authorization: Bearer {admin}\r\nsec-fetch-site: cross-site\r\n");
    for others in [page, rebound] {
        assert_eq!(take(&format!("{others}{with}")).await.status, 200, "{others}");
    }
}

/// An instance without tokens, with keyspaces of several kinds.
struct Browsed {
    instance: Instance,
}

impl Browsed {
    async fn start() -> Browsed {
        let instance = Instance::start().await;
        let tickets = json!({"kind": "sequential", "alphabet": "decimal", "length": 0});
        for (space, settings) in [
            ("tickets", tickets),
            ("noted", json!({"audit": "key"})),
            ("urls", json!({"kind": "digest"})),
            ("coupons", json!({"kind": "pooled"})),
        ] {
            assert_eq!(instance.put(space, &settings).await.status, 201, "{space}");
        }
        let alias = instance.call("PUT", "/v1/spaces/default/aliases/sale").await;
        assert_eq!(alias.status, 201, "{}", alias.body);
        let browsed = Browsed { instance };
        browsed.ticket().await;
        browsed
    }

    /// A request whose headers begin with its host.
    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        kind: &str,
        body: &str,
    ) -> Answer {
        assert!(headers.starts_with("host: "), "{headers}");
        let kind =
            if kind.is_empty() { String::new() } else { format!("content-type: {kind}\r\n") };
        let len = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{headers}{kind}connection: close\r\ncontent-length: {len}\r\n\r\n{body}"
        );
        self.instance.ask(&request).await
    }

    fn allow(&self, hosts: &[&str], origins: &[&str]) {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let (allowed_hosts, allowed_origins) = (owned(hosts), owned(origins));
        self.instance.http.set_browser_rules(BrowserRules { allowed_hosts, allowed_origins });
    }

    /// The next number of the keyspace `tickets`.
    async fn ticket(&self) -> u64 {
        loop {
            let taken = self.instance.call("GET", "/get-key?space=tickets").await;
            // A first take may take longer than it waits.
            if taken.status != 503 {
                return taken.body.parse().unwrap_or_else(|_| panic!("{}", taken.body));
            }
        }
    }

    /// All that a page could take or change, but for tickets, which are counted.
    async fn everything(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for path in [
            "/v1/spaces/default",
            "/v1/spaces/noted",
            "/v1/spaces/urls",
            "/v1/spaces/coupons",
            "/v1/spaces/default/aliases",
            "/v1/spaces/noted/used",
            "/v1/spaces/coupons/used",
            "/v1/tokens",
            "/v1/acts",
        ] {
            let answer = self.instance.call("GET", path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            all.push(answer.json());
        }
        let spaces = self.instance.call("GET", "/v1/spaces").await.json();
        let spaces = spaces["spaces"].as_array().unwrap().iter();
        all.push(spaces.map(|space| space["name"].clone()).collect());
        all
    }
}
