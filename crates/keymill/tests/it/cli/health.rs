//! `keymill health`: it finds the server by the settings that both have, and tells by its exit code how it is.

use std::fs;
use std::time::{Duration, Instant};

use super::serve::Server;
use super::{Place, failed, stderr};
use crate::certificates::Authority;

const LOOPBACK: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// A server whose settings file names the port that it got.
fn served(settings: &str) -> Server {
    let place = Place::new();
    fs::write(place.path().join("keymill.toml"), settings).unwrap();
    let server = Server::start_in(place, &LOOPBACK);
    server.write_settings(&format!("listen = \"{}\"\n{settings}", server.address));
    server
}

#[test]
fn a_server_that_is_ready_is_found_by_its_settings() {
    let server = served("");
    assert_eq!(server.place.ok(&["health"]), "ready\n");
    assert_eq!(server.place.ok(&["health", "--live"]), "alive\n");
    // What the server needs besides is no concern of a health check.
    let with_secret = format!("listen = \"{}\"\nsecret_file = \"gone\"\n", server.address);
    server.write_settings(&with_secret);
    assert_eq!(server.place.ok(&["health"]), "ready\n");
    // An address that listens everywhere is asked on this machine.
    server.write_settings(&format!("listen = \":{}\"\n", server.address.port()));
    assert_eq!(server.place.ok(&["health"]), "ready\n");
    let variable = format!("127.0.0.1:{}", server.address.port());
    server.write_settings("");
    let output = server.place.command(&["health"]).env("KEYMILL_LISTEN", variable).output();
    assert!(output.unwrap().status.success());
    let url = format!("http://{}", server.address);
    assert_eq!(Place::new().ok(&["health", "--server", &url]), "ready\n");
}

#[test]
fn a_server_with_a_socket_a_certificate_or_an_address_for_administration_is_found_too() {
    let place = Place::new();
    fs::write(place.path().join("keymill.toml"), "listen = \"unix:keymill.sock\"\n").unwrap();
    let server = Server::start_in(place, &[]);
    assert_eq!(server.place.ok(&["health"]), "ready\n");
    drop(server);

    let place = Place::new();
    // It is for another name than the one that a health check uses, and of an authority that nobody knows.
    Authority::new().server().write(place.path());
    let tls = "tls_certificate = \"tls.pem\"\ntls_key = \"tls.key\"\n";
    fs::write(place.path().join("keymill.toml"), tls).unwrap();
    let server = Server::start_in(place, &LOOPBACK);
    assert!(server.greeting["url"].as_str().unwrap().starts_with("https://"));
    server.write_settings(&format!("listen = \"{}\"\n{tls}", server.address));
    assert_eq!(server.place.ok(&["health"]), "ready\n");
    drop(server);

    let place = Place::new();
    let admin = "admin_listen = \"unix:admin.sock\"\n";
    fs::write(place.path().join("keymill.toml"), admin).unwrap();
    let server = Server::start_in(place, &LOOPBACK);
    // The other address is wrong here, and not asked.
    server.write_settings(&format!("listen = \"127.0.0.1:1\"\n{admin}"));
    assert_eq!(server.place.ok(&["health"]), "ready\n");
}

#[test]
fn a_server_that_stops_is_alive_and_not_ready() {
    let mut server = served("[limits]\ndrain_delay_seconds = 20\n");
    server.signal("TERM");
    server.logged("stopping");
    let begin = Instant::now();
    let output = loop {
        let output = server.place.run(&["health"]);
        // The signal is noted before the server acts on it.
        if !output.status.success() || begin.elapsed() > Duration::from_secs(10) {
            break output;
        }
    };
    failed(&output, 1, "the server is not ready: stopping: this instance is stopping");
    assert_eq!(server.place.ok(&["health", "--live"]), "alive\n");
    // A second signal ends it at once.
    server.signal("TERM");
    server.ended();
}

#[test]
fn a_server_with_tokens_is_asked_without_one_and_tells_no_details() {
    let place = Place::new();
    place.ok(&["token", "create", "shop", "--allow", "take:default"]);
    fs::write(place.path().join("keymill.toml"), "[limits]\ndrain_delay_seconds = 20\n").unwrap();
    let mut server = Server::start_in(place, &LOOPBACK);
    server.write_settings(&format!("listen = \"{}\"\n", server.address));
    assert_eq!(server.place.ok(&["health"]), "ready\n");
    server.signal("TERM");
    server.logged("stopping");
    let begin = Instant::now();
    while server.place.run(&["health"]).status.success() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it stays ready");
    }
    failed(&server.place.run(&["health"]), 1, "the server is not ready; its log says why");
    server.signal("TERM");
    server.ended();
}

#[test]
fn problems_that_leave_a_server_ready_are_told() {
    let server = served("");
    for file in ["keymill.db", "keymill.db-wal", "keymill.db-shm"] {
        let _ = fs::remove_file(server.place.path().join("keymill").join(file));
    }
    let begin = Instant::now();
    loop {
        let output = server.place.run(&["health"]);
        assert!(output.status.success(), "{}", stderr(&output));
        if stderr(&output).contains("store_unavailable: the store is unreachable") {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{}", stderr(&output));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(stderr(&server.place.run(&["health", "--quiet"])).is_empty());
}

#[test]
fn whatever_does_not_answer_is_not_healthy_and_has_one_exit_code() {
    let place = Place::new();
    let settings = |text: &str| fs::write(place.path().join("keymill.toml"), text).unwrap();
    settings("listen = \"127.0.0.1:1\"\n");
    place.fails(&["health"], 1, "the server at 127.0.0.1:1 cannot be asked");
    place.fails(&["health", "--server", "http://127.0.0.1:1"], 1, "127.0.0.1:1");
    settings("listen = \"unix:gone.sock\"\n");
    place.fails(&["health", "--live"], 1, "unix:gone.sock");
    settings("listen = \"127.0.0.1:0\"\n");
    place.fails(&["health"], 1, "name it with --server");
    place.fails(&["health", "--server", "http://127.0.0.1:1", "--store", "sqlite:a.db"], 2, "");
    // It looks at nothing else.
    let left: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["keymill.toml"]);
}

/// Somebody who accepts connections and never says anything.
#[test]
fn a_server_that_hangs_is_not_healthy() {
    let place = Place::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    fs::write(place.path().join("keymill.toml"), format!("listen = \"{address}\"\n")).unwrap();
    place.fails(&["health"], 1, "did not answer within 3s");
}
