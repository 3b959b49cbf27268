//! What users are promised of their links.

use std::time::{Duration, Instant};

use keymill_proof::{Client, Deployment, Fleet, Server};
use serde_json::json;

use super::{Visitor, body, is_problem, shortener, to};

const URL: &str = "https://example.com/a?b=c#d";

/// One shortener on one keymill, both on SQLite.
struct Setup {
    server: Server,
    fleet: Fleet,
    deployment: Deployment,
}

impl Setup {
    fn new(args: &[&str]) -> Setup {
        let deployment = Deployment::sqlite();
        let fleet = Fleet::start([deployment.server("d0")]);
        let links = format!("sqlite:{}", deployment.path("links.db").display());
        let mut spec = shortener(&fleet, &links, deployment.folder());
        spec.args.extend(args.iter().map(ToString::to_string));
        Setup { server: spec.start(), fleet, deployment }
    }

    fn visitor(&self, number: usize) -> Visitor {
        Visitor::new(self.server.address(), number)
    }
}

#[test]
fn one_url_has_one_key_for_each_user_and_redirects_with_302() {
    let setup = Setup::new(&[]);
    let (mut ann, mut bob) = (setup.visitor(1), setup.visitor(2));
    let first = ann.create(&to(URL)).unwrap();
    assert_eq!(first.status, 201, "{}", first.text());
    let link = body(&first);
    let key = link["key"].as_str().unwrap();
    let short_url = format!("http://{}/{key}", setup.server.address());
    assert_eq!((&link["short_url"], &link["url"]), (&json!(short_url), &json!(URL)));
    assert_eq!(link["expires_at"], json!(null));
    assert_eq!(ann.key(&to("HTTPS://EXAMPLE.com/x/../a?b=c#d"), 200), key);
    let of_bob = bob.key(&to(URL), 201);
    assert_ne!(of_bob, key);
    for key in [key, &of_bob] {
        ann.leads_to(key, URL);
    }
    let answer = ann.request("GET", &format!("/{key}"));
    assert_eq!(answer.header("cache-control"), Some("private, max-age=60"));
    assert_eq!(ann.request("HEAD", &format!("/{key}")).status, 302);
    let mine = body(&ann.request("GET", "/api/links"));
    assert_eq!(
        (mine["links"].as_array().unwrap().len(), &mine["links"][0]["key"]),
        (1, &json!(key))
    );
}

#[test]
fn an_alias_belongs_to_the_user_who_came_first() {
    let setup = Setup::new(&[]);
    let (mut ann, mut bob) = (setup.visitor(1), setup.visitor(2));
    let sale = |url: &str| json!({"url": url, "alias": "summer-sale_2026"});
    assert_eq!(ann.key(&sale(URL), 201), "summer-sale_2026");
    assert_eq!(ann.key(&sale(URL), 200), "summer-sale_2026");
    ann.leads_to("summer-sale_2026", URL);
    bob.is_refused(&sale(URL), 409, "alias_taken");
    ann.is_refused(&sale("https://example.org/"), 409, "alias_taken");
    let key = ann.key(&to(URL), 201);
    assert_ne!(key, "summer-sale_2026", "a generated link is another one");
    bob.is_refused(&json!({"url": "https://example.org/", "alias": key}), 409, "alias_taken");
    for alias in ["", "seventeen-letters", "a b", "ä", "api", "static", "health", "index.html"] {
        ann.is_refused(&json!({"url": URL, "alias": alias}), 400, "bad_alias");
    }
}

#[test]
fn the_id_of_a_browser_is_kept_nowhere() {
    let setup = Setup::new(&[]);
    let mut ann = setup.visitor(0xbeef);
    let id = ann.cookie.strip_prefix("user=").unwrap().to_owned();
    ann.key(&json!({"url": URL, "alias": "mine"}), 201);
    ann.key(&to(URL), 201);
    let keymill = setup.fleet.each().next().unwrap().address();
    let aliases = Client::new(keymill).request("GET", "/v1/spaces/default/aliases", &[], b"");
    let aliases = aliases.unwrap().text().to_owned();
    assert!(aliases.contains("mine") && !aliases.contains(&id), "{aliases}");
    for file in std::fs::read_dir(setup.deployment.folder()).unwrap() {
        let path = file.unwrap().path();
        let is_in = |bytes: Vec<u8>| bytes.windows(id.len()).any(|it| it == id.as_bytes());
        assert!(!path.is_file() || !is_in(std::fs::read(&path).unwrap()), "{}", path.display());
    }
}

#[test]
fn a_link_that_expired_or_was_removed_is_gone_and_its_key_is_not_used_again() {
    let setup = Setup::new(&[]);
    let (mut ann, mut bob) = (setup.visitor(1), setup.visitor(2));
    let brief = ann.key(&json!({"url": URL, "expires_in_seconds": 1}), 201);
    let removed = ann.key(&json!({"url": URL, "alias": "sale"}), 201);
    assert_eq!(bob.request("DELETE", "/api/links/sale").status, 404);
    assert_eq!(ann.request("DELETE", "/api/links/sale").status, 204);
    let deadline = Instant::now() + Duration::from_secs(20);
    while ann.follow(&brief).0 != 410 {
        assert!(Instant::now() < deadline, "it does not expire");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(ann.follow(&removed), (410, None));
    ann.is_refused(&json!({"url": URL, "alias": "sale"}), 409, "alias_taken");
    let next = ann.key(&json!({"url": URL, "expires_at": "2030-01-01T00:00:00Z"}), 201);
    assert_ne!(next, brief);
    ann.leads_to(&next, URL);
}

#[test]
fn what_is_unknown_is_a_page_with_404() {
    let setup = Setup::new(&[]);
    let mut ann = setup.visitor(1);
    for path in ["/Unknown", "/a/b", "/static/other", "/%ff", "/%00"] {
        let answer = ann.request("GET", path);
        let kind = answer.header("content-type").unwrap_or_default();
        assert_eq!((answer.status, kind), (404, "text/html; charset=utf-8"), "{path}");
        assert!(answer.text().contains("There is no such link"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    let answer = ann.request("GET", "/api/other");
    is_problem(&answer, 404, "unknown_path");
}

#[test]
fn what_is_unknown_leads_home_where_that_is_set() {
    let setup = Setup::new(&["--unknown", "home"]);
    let mut ann = setup.visitor(1);
    ann.leads_to("Unknown", "/");
    let home = ann.request("GET", "/");
    assert_eq!(home.status, 200);
    let policy = home.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
}

#[test]
fn what_cannot_be_a_link_is_refused_as_a_problem() {
    let setup = Setup::new(&["--public-url", "https://sho.rt"]);
    let mut ann = setup.visitor(1);
    for url in ["", "example.com", "javascript:alert(1)", "https://sho.rt/abc", "http://sho.rt./"] {
        ann.is_refused(&to(url), 400, "bad_url");
    }
    for expiry in [
        json!({"expires_in_seconds": 0}),
        json!({"expires_in_seconds": i64::MAX}),
        json!({"expires_at": "2020-01-01T00:00:00Z"}),
        json!({"expires_at": "2030-01-01T00:00:00Z", "expires_in_seconds": 60}),
    ] {
        let mut new = expiry;
        new["url"] = json!(URL);
        ann.is_refused(&new, 400, "bad_expiry");
    }
    ann.is_refused(&json!({"url": URL, "alais": "x"}), 422, "bad_body");
    ann.is_refused(&to(&"x".repeat(20_000)), 413, "bad_body");
    let form = ann.client.request("POST", "/api/links", &[], b"url=https://example.com");
    is_problem(&form.unwrap(), 415, "bad_body");
}

#[test]
fn users_are_those_whom_a_proxy_names_where_that_is_set() {
    let setup = Setup::new(&["--user-header", "X-Forwarded-User"]);
    let mut client = setup.visitor(1).client;
    let new = to(URL).to_string();
    let mut create = |user: Option<&str>| {
        let mut headers = vec![("Content-Type", "application/json"), ("Cookie", "user=1")];
        headers.extend(user.map(|user| ("X-Forwarded-User", user)));
        client.request("POST", "/api/links", &headers, new.as_bytes()).unwrap()
    };
    is_problem(&create(None), 401, "no_user");
    let of = [Some("ann@example.com"), Some("bob@example.com"), Some("ann@example.com")]
        .map(&mut create);
    let key = |answer| body(answer)["key"].clone();
    assert_eq!(of.each_ref().map(|answer| answer.status), [201, 201, 200]);
    assert!(key(&of[0]) == key(&of[2]) && key(&of[0]) != key(&of[1]));
}

#[test]
fn a_browser_without_a_cookie_is_a_new_user_and_is_told_so() {
    let setup = Setup::new(&[]);
    let mut visitor = setup.visitor(1);
    let answer = visitor.client.get("/").unwrap();
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
    visitor.cookie = cookie.split(';').next().unwrap().to_owned();
    assert_eq!(visitor.request("GET", "/").header("set-cookie"), None);
    let key = visitor.key(&to(URL), 201);
    assert_eq!(visitor.key(&to(URL), 200), key);
}
