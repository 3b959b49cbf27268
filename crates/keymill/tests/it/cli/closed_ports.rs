//! Ports that others reach are open to callers with a token, or after a word that they are open to all; once a token
//! existed, never again to anybody without one.

use std::fs;

use super::serve::Server;
use super::tokens::{
    EVERYWHERE, LOOPBACK, bearer, create, eventually, new_text, section, stopped, take,
};
use super::{Place, failed};

#[test]
fn a_port_that_others_reach_is_not_opened_without_tokens() {
    let place = Place::new();
    for (flag, address) in
        [("--listen", "0.0.0.0:0"), ("--listen", "[::]:0"), ("--admin-listen", "0.0.0.0:0")]
    {
        let output = place.run(&["serve", "--listen", "127.0.0.1:0", flag, address]);
        failed(&output, 1, &format!("cannot listen on {address} without tokens"));
        // With what to type.
        failed(&output, 1, "\n  keymill token create operator --allow 'admin:*'\n");
        failed(&output, 1, "add --insecure-no-auth");
    }
    let insecure = Server::start_in(place, &["--listen", "0.0.0.0:0", "--insecure-no-auth"]);
    assert!(insecure.ask("GET", "/get-key", "").starts_with("HTTP/1.1 200"));
    // A page of another origin is still refused.
    assert!(insecure.ask("GET", "/get-key", "sec-fetch-site: cross-site\r\n").contains(" 403 "));
    let place = stopped(insecure);
    let text = create(&place, "shop", "take:default");
    let guarded = Server::start_in(place, &EVERYWHERE[1..]);
    assert_eq!((take(&guarded, &text), take(&guarded, "")), (200, 401));
}

#[test]
fn who_listens_everywhere_without_tokens_is_warned() {
    let place = Place::new();
    let flags = ["--listen", "0.0.0.0:0", "--insecure-no-auth"];
    let mut serve = place.command(&[&["serve"], flags.as_slice()].concat());
    let mut child = serve.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(said).map_while(Result::ok);
    let warning = lines.find(|line| line.contains("whoever reaches 0.0.0.0:0"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(warning.is_some_and(|line| line.contains("--insecure-no-auth is set")));
}

#[test]
fn once_a_token_existed_callers_need_one_for_good() {
    let place = Place::new();
    let text = create(&place, "shop", "take:default");
    place.ok(&["token", "revoke", "shop"]);
    assert_eq!(place.ok(&["token", "list", "--json"]).trim(), "[]");
    // On loopback, and where others reach it, too: nobody gets in.
    let mut server = Server::start_in(place, &EVERYWHERE[1..]);
    for _ in 0..2 {
        assert_eq!((take(&server, ""), take(&server, &text)), (401, 401));
        assert!(server.ask("GET", "/healthz", "").starts_with("HTTP/1.1 200"));
        server = Server::start_in(stopped(server), &LOOPBACK);
    }
    // Until there is one again.
    let second = create(&server.place, "mall", "take:default");
    eventually("it is known", || take(&server, &second) == 200);
    // It is revoked over HTTP, while the server runs.
    let admin = create(&server.place, "admin", "admin:*");
    let headers = format!("{}content-length: 0\r\n", bearer(&admin));
    eventually("the other is revoked", || {
        server.ask("DELETE", "/v1/tokens/mall", &headers).starts_with("HTTP/1.1 204")
    });
    let revoked = server.ask("DELETE", "/v1/tokens/admin", &headers);
    assert!(revoked.starts_with("HTTP/1.1 204"), "{revoked}");
    assert_eq!((take(&server, ""), take(&server, &second), take(&server, &admin)), (401, 401, 401));
}

#[test]
fn tokens_that_are_lost_with_the_store_leave_it_closed() {
    let place = Place::new();
    let (store, data) = ("sqlite:store/keymill.db", ["--data-dir", "data"]);
    let with = |args: &[&str], data: [&str; 2]| {
        let store = ["--store", store];
        [args, &store, &data].concat().iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    let run = |args: &[&str], data: [&str; 2]| {
        let args = with(args, data);
        place.ok(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let lose = || {
        let _ = fs::remove_dir_all(place.path().join("store"));
        fs::create_dir(place.path().join("store")).unwrap();
    };
    lose();
    run(&["take"], data);
    let text = run(&["token", "create", "shop", "--allow", "take:default"], data);
    // Everything that belongs to the store is gone; the data directory has what was seen of it.
    lose();
    let serve = with(&["serve", "--listen", "127.0.0.1:0"], data);
    let serve: Vec<&str> = serve.iter().map(String::as_str).collect();
    place.fails(&serve, 1, "belongs to the store");
    // Another store in its place, with keyspaces and without tokens.
    lose();
    run(&["take"], ["--data-dir", "elsewhere"]);
    let server = Server::start_in(place, &serve[1..]);
    assert_eq!((take(&server, ""), take(&server, text.trim())), (401, 401));
    // With a data directory that has seen no token, it is open: so it is the files that keep it closed.
    let place = stopped(server);
    let open = with(&["--listen", "127.0.0.1:0"], ["--data-dir", "elsewhere"]);
    let server = Server::start_in(place, &open.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(take(&server, ""), 200);
}

#[test]
fn a_hangup_brings_tokens_and_never_opens_what_was_closed() {
    let text = new_text();
    let place = Place::new();
    // A file that is not there at the start is not read later.
    fs::write(place.path().join("keymill.toml"), "").unwrap();
    let server = Server::start_in(place, &LOOPBACK);
    let reload = |settings: &str| {
        server.write_settings(settings);
        server.signal("HUP");
        server.logged("the settings were reloaded");
    };
    assert_eq!(take(&server, ""), 200);
    reload(&section("shop", &text));
    assert_eq!((take(&server, &text), take(&server, "")), (200, 401));
    reload(&format!("anonymous_allow = [\"take:default\"]\n{}", section("shop", &text)));
    assert_eq!((take(&server, &text), take(&server, "")), (200, 200));
    reload("");
    assert_eq!((take(&server, &text), take(&server, "")), (401, 401));
}
