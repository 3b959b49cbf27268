//! Settings, flags and help.

use super::Place;

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
    place.fails(&["take", "--config", "missing.toml"], 1, "missing.toml");
    place.fails(&["serve", "--listen", "nowhere"], 1, "127.0.0.1:8080");
    place.fails(&["take", "-n", "0"], 2, "1 or more");
    place.fails(&["take", "-n", "-1"], 2, "1 or more");
    place.fails(&["take", "-n", "abc"], 2, "1 or more");
    for (text, says) in [
        ("[log]\nlevel = \"loud\"", "log.level is `loud`"),
        ("[spaces.a]\nlength = 1", "[spaces.a]"),
        ("store = \"oracle://x\"", "`oracle`"),
        ("[limits]\nwait_seconds = 0", "limits.wait_seconds"),
    ] {
        std::fs::write(place.path().join("bad.toml"), text).unwrap();
        place.fails(&["config", "check", "--config", "bad.toml"], 1, says);
    }
    place.fails(&["frobnicate"], 2, "frobnicate");
}

#[test]
fn a_port_in_use_is_named() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    place.fails(&["serve", "--listen", &address], 1, &format!("cannot listen on {address}"));
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
    for command in ["take", "serve", "explain", "completions"] {
        assert!(place.ok(&[command, "--help"]).contains("Example"), "{command}");
    }
}
