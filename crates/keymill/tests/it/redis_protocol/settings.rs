//! Where the Redis protocol is spoken, as the command line and the settings say it.

use crate::cli::Place;

#[test]
fn it_is_off_until_an_address_is_set() {
    let place = Place::new();
    assert!(!place.ok(&["config", "show"]).contains("redis_listen"));
    let mut command = place.command(&["config", "show"]);
    command.env("KEYMILL_REDIS_LISTEN", "127.0.0.1:1, unix:redis.sock");
    let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(shown.contains("redis_listen = [\"127.0.0.1:1\", \"unix:redis.sock\"]"), "{shown}");
    let settings = "redis_listen = \"127.0.0.1:2\"\n[limits]\nredis_idle_seconds = 30.0\n";
    std::fs::write(place.path().join("keymill.toml"), settings).unwrap();
    let shown = place.ok(&["config", "show"]);
    for line in ["redis_listen = \"127.0.0.1:2\"", "redis_idle_seconds = 30.0"] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    std::fs::write(place.path().join("keymill.toml"), "[limits]\nredis_idle_seconds = -1.0\n")
        .unwrap();
    place.fails(&["config", "check"], 1, "limits.redis_idle_seconds must be");
}

#[test]
fn an_address_that_cannot_be_used_is_named() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let says = format!("cannot listen on {address}; choose another address with --redis-listen");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--redis-listen"];
    place.fails(&[&serve[..], &[&address]].concat(), 1, &says);
    place.fails(&[&serve[..], &["nowhere"]].concat(), 2, "--redis-listen: cannot listen on");
}

#[test]
fn without_tokens_it_is_for_this_machine_only() {
    let place = Place::new();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--redis-listen", "0.0.0.0:0"];
    place.fails(&serve, 1, "cannot listen on 0.0.0.0:0 without tokens");
}
