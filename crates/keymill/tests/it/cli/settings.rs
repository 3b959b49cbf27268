//! Settings, flags and help.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{Place, failed};

#[test]
fn settings_come_from_flags_variables_and_the_file() {
    let place = Place::new();
    std::fs::write(place.path().join("keymill.toml"), "default_space = \"links\"\n").unwrap();
    assert!(place.ok(&["config", "show"]).contains("default_space = \"links\""));
    let defaults = place.ok(&["config", "show", "--default"]);
    assert!(defaults.contains("# Where to listen."));
    place.ok(&["config", "check"]);
    std::fs::write(place.path().join("bad.toml"), "lisen = \"x\"\n").unwrap();
    place.fails(&["config", "check", "--config", "bad.toml"], 1, "did you mean `listen`?");
    place.fails(&["serve", "--config", "bad.toml"], 1, "bad.toml");
    std::fs::write(place.path().join("bad.toml"), "[spaces.a]\nalphabet = \"aa\"\n").unwrap();
    place.fails(&["config", "check", "--config", "bad.toml"], 1, "[spaces.a]");
    let missing = "--config: cannot read the settings in missing.toml";
    place.fails(&["take", "--config", "missing.toml"], 2, missing);
    place.fails(&["serve", "--listen", "nowhere"], 2, "127.0.0.1:8080");
    place.fails(&["take", "-n", "0"], 2, "1 or more");
    place.fails(&["take", "-n", "-1"], 2, "1 or more");
    place.fails(&["take", "-n", "abc"], 2, "1 or more");
    for (text, says) in [
        ("[log]\nlevel = \"loud\"", "filter such as keymill=debug,warn, not `loud`"),
        ("[spaces.a]\nlength = 1", "[spaces.a]"),
        ("store = \"oracle://x\"", "`oracle`"),
        ("[limits]\nwait_seconds = 0", "limits.wait_seconds"),
        ("[limits]\ncount_max = 0", "limits.count_max must be from 1 to 10,000,000, not 0"),
        ("[limits]\ncount_max = \"x\"", "count_max must be a whole number from 1 to 10,000,000"),
    ] {
        std::fs::write(place.path().join("bad.toml"), text).unwrap();
        place.fails(&["config", "check", "--config", "bad.toml"], 1, says);
    }
    place.fails(&["frobnicate"], 2, "frobnicate");
}

#[test]
fn a_variable_that_is_not_text_is_refused_by_its_name() {
    let place = Place::new();
    let bytes = OsStr::from_bytes(b"/tmp/\xff");
    for name in ["KEYMILL_LISTEN", "KEYMILL_DATA_DIR", "KEYMILL_SECRET"] {
        let output = place.command(&["config", "check"]).env(name, bytes).output().unwrap();
        failed(&output, 1, &format!("{name} is not UTF-8 text"));
    }
    // What belongs to others is left alone.
    let output = place.command(&["config", "check"]).env("KEYMILL_TEST_X", bytes).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_port_in_use_is_named() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let says = format!("cannot listen on {address}; choose another port with --port");
    place.fails(&["serve", "--listen", &address], 1, &says);
}

#[test]
fn completions_are_written_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.ok(&["completions", shell]).contains("keymill"));
    }
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let place = Place::new();
    let help = place.ok(&["--help"]);
    assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{help}");
    for command in ["take", "serve", "explain", "digest", "completions"] {
        assert!(place.ok(&[command, "--help"]).contains("Example"), "{command}");
    }
    let of_spaces = ["create", "list", "show", "set", "grow", "advance", "export", "import"];
    let of_spaces = of_spaces.into_iter().chain(["import-used", "bounds", "seal"]);
    let of_aliases = ["add", "list", "show", "remove"];
    let all = of_spaces.map(|it| ("space", it)).chain(of_aliases.map(|it| ("alias", it)));
    for (group, command) in all.chain([("audit", "export"), ("secret", "export")]) {
        let help = place.ok(&[group, command, "--help"]);
        assert!(help.contains("Example"), "{group} {command}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_a_refusal_with_1() {
    let place = Place::new();
    place.fails(&["space", "create", "Bad Name"], 2, "cannot name a keyspace");
    place.fails(&["space", "create", "a", "--length", "1"], 2, "");
    place.fails(&["space", "create", "a", "--alphabet", "aa"], 2, "");
    place.fails(&["space", "create", "a", "--horizon-seconds", "0"], 2, "horizon_seconds");
    place.fails(&["secret", "export", "-", "--forget"], 2, "--forget needs a file");
    place.ok(&["take"]);
    let long = "x".repeat(300);
    place.fails(&["audit", "export", "default", "--caller", &long], 2, "caller");
    place.fails(&["audit", "export", "default", "--caller", ""], 2, "must not be empty");
    place.fails(&["alias", "add", "default", "a b"], 2, "`a b` cannot be an alias");
    place.fails(&["alias", "add", "default", ""], 2, "it is empty");
    place.fails(&["alias", "add", "default", "ab", "--owner", "a\u{1b}"], 2, "owner");
    place.ok(&["space", "create", "urls", "--kind", "digest"]);
    place.fails(&["digest", "urls", ""], 2, "the input is empty");
    place.fails(&["digest", "urls", "x", "--scope", &long], 2, "at most 256 bytes");
    for time in ["2026-11-16T00:00:00Z[UTC]", "9999-12-31"] {
        place.fails(&["audit", "export", "default", "--to", time], 2, "must be a time such as");
    }
    place.ok(&["audit", "export", "default", "--to", "9999-12-31T23:59:59Z"]);
    // An epoch is permanent, so it is not taken for the last time there is.
    let ids = ["space", "create", "ids", "--kind", "snowflake", "--epoch", "9999-12-31T23:59:59Z"];
    place.fails(&ids, 2, "must be a time such as");
    place.fails(&["space", "create", "default", "--length", "9"], 1, "already exists");
    place.fails(&["space", "show", "nope"], 1, "no keyspace");
}

#[test]
fn a_port_alone_can_be_given_and_not_together_with_an_address() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    // Which address it means is told by the refusal.
    place.fails(&["serve", "--port", &port], 1, &format!("cannot listen on 127.0.0.1:{port}"));
    let both = ["serve", "--port", &port, "--listen", "127.0.0.1:0"];
    place.fails(&both, 2, "cannot be used with '--listen");
    place.fails(&["serve", "--port", "70000"], 2, "--port");
    let listen = "127.0.0.2:1";
    std::fs::write(place.path().join("keymill.toml"), format!("listen = \"{listen}\"\n")).unwrap();
    let Ok(_taken) = std::net::TcpListener::bind(format!("127.0.0.2:{port}")) else {
        eprintln!("\n*** NOT TESTED: this machine has no address 127.0.0.2 ***\n");
        return;
    };
    place.fails(&["serve", "--port", &port], 1, &format!("cannot listen on 127.0.0.2:{port}"));
}

/// A full disk, or a pipe that nobody reads any more, is no reason to crash.
#[test]
fn settings_and_findings_that_cannot_be_written_are_an_error_and_no_crash() {
    let place = Place::new();
    place.ok(&["take"]);
    let commands: [&[&str]; 6] = [
        &["config", "show"],
        &["config", "show", "--json"],
        &["config", "show", "--default"],
        &["store", "check"],
        &["store", "identity"],
        &["man"],
    ];
    for args in commands {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = place.command(args).stdout(full).output().unwrap();
        failed(&output, 1, "cannot write to standard output: No space left on device");
    }
}
