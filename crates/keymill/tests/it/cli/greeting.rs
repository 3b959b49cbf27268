//! The greeting of a server.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::{Place, stderr};

/// What a server prints when it starts, up to the example of a call, which is the last line.
pub(super) fn greeting(place: &Place, flags: &[&str]) -> String {
    let mut serve = place.command(&[&["serve"], flags].concat());
    let mut server = serve.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let mut greeting = String::new();
    for line in lines.map_while(Result::ok) {
        greeting += &format!("{line}\n");
        if line.contains("curl ") {
            break;
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
    greeting
}

#[test]
fn the_greeting_tells_who_may_do_what_and_an_address_that_can_be_opened() {
    let place = Place::new();
    let loopback = greeting(&place, &["--listen", "127.0.0.1:0"]);
    let says = "  access     no tokens: everybody on this machine may do everything";
    assert!(loopback.contains(says), "{loopback}");
    let open = ["--listen", "0.0.0.0:0", "--redis-listen", "0.0.0.0:0", "--insecure-no-auth"];
    let insecure = greeting(&place, &open);
    for line in [
        "whoever reaches 0.0.0.0:0, 0.0.0.0:0 can take keys and change everything",
        "  redis      redis://127.0.0.1:",
        "  listening  http://127.0.0.1:",
        "on every address of this machine (0.0.0.0:",
        "  page       http://127.0.0.1:",
        "  docs       http://127.0.0.1:",
        "  access     no tokens: whoever reaches it may do everything",
        "  curl http://127.0.0.1:",
    ] {
        assert!(insecure.contains(line), "`{line}` is not in\n{insecure}");
    }
    assert_eq!(insecure.matches("on every address of this machine").count(), 2, "{insecure}");
    place.ok(&["token", "create", "shop", "--allow", "take:default"]);
    place.ok(&["token", "create", "mall", "--allow", "take:default"]);
    let closed = greeting(&place, &["--listen", "0.0.0.0:0"]);
    let says = "  access     2 tokens; callers without one may take and change nothing\n";
    assert!(closed.contains(says), "{closed}");
    // Others on the machine could read a token on a command line.
    assert!(closed.contains("  curl -H @token.header http://127.0.0.1:"), "{closed}");
    assert!(!closed.contains("KEYMILL_TOKEN"), "{closed}");
    let settings = "anonymous_allow = [\"take:default\", \"read:default\"]\n";
    std::fs::write(place.path().join("keymill.toml"), settings).unwrap();
    let open = greeting(&place, &["--listen", "127.0.0.1:0"]);
    let says = "  access     2 tokens; callers without one may take:default, read:default\n";
    assert!(open.contains(says), "{open}");
}

#[test]
fn settings_for_callers_without_a_token_are_warned_of_where_there_are_no_tokens() {
    let place = Place::new();
    let settings = "anonymous_allow = [\"take:default\"]\n";
    std::fs::write(place.path().join("keymill.toml"), settings).unwrap();
    let says = "`anonymous_allow` restricts nothing";
    let started = greeting(&place, &["--listen", "127.0.0.1:0"]);
    assert!(started.contains(says), "{started}");
    let checked = place.run(&["config", "check"]);
    assert!(checked.status.success() && stderr(&checked).contains(says), "{}", stderr(&checked));
    // With a token, it says what it should.
    place.ok(&["token", "create", "shop", "--allow", "take:default"]);
    let started = greeting(&place, &["--listen", "127.0.0.1:0"]);
    assert!(!started.contains(says), "{started}");
    let hash = "ab".repeat(32);
    let token = format!("{settings}[tokens.mall]\nsha256 = \"{hash}\"\nallow = []\n");
    std::fs::write(place.path().join("keymill.toml"), token).unwrap();
    let checked = place.run(&["config", "check"]);
    assert!(!stderr(&checked).contains(says), "{}", stderr(&checked));
}

#[test]
fn the_greeting_tells_where_the_secret_comes_from() {
    let place = Place::new();
    let made_up = greeting(&place, &["--listen", "127.0.0.1:0"]);
    assert!(made_up.contains("  secret     created at the first start"), "{made_up}");
    place.ok(&["secret", "export", "secret.txt", "--forget"]);
    std::fs::write(place.path().join("keymill.toml"), "secret_file = \"secret.txt\"\n").unwrap();
    let outside = greeting(&place, &["--listen", "127.0.0.1:0"]);
    assert!(outside.contains("  secret     from `secret_file`; keep it"), "{outside}");
}

#[test]
fn the_greeting_describes_keyspaces_of_every_kind() {
    let place = Place::new();
    place.ok(&["space", "create", "events", "--kind", "uuid"]);
    place.ok(&["space", "create", "ids", "--kind", "snowflake"]);
    place.ok(&["space", "create", "tickets", "--kind", "sequential", "--length", "0"]);
    place.ok(&["space", "create", "urls", "--kind", "digest"]);
    let greeting = greeting(&place, &["--listen", "127.0.0.1:0"]);
    for line in [
        "  keyspace   default: shuffled base62×7, 0 of 3,521,614,606,208 keys leased\n",
        "  keyspace   events: uuid version 7\n",
        "  keyspace   ids: snowflake decimal integers, layout 41/10/12\n",
        "  keyspace   tickets: sequential decimal integers, 0 of 9,223,372,036,854,775,807 keys leased\n",
        "  keyspace   urls: digest base62×7\n",
    ] {
        assert!(greeting.contains(line), "`{line}` is not in\n{greeting}");
    }
}
