//! Commands that ask before they do what cannot be undone: without a terminal they do nothing.

use std::process::{Output, Stdio};

use super::{Place, failed, stderr};

/// Runs a command that has nobody to ask.
fn alone(place: &Place, args: &[&str]) -> Output {
    place.command(args).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn without_a_terminal_nothing_is_done_that_would_be_asked_for() {
    let place = Place::new();
    place.ok(&["space", "create", "codes", "--kind", "pooled"]);
    place.ok(&["pool", "fill", "codes", "--count", "10"]);
    place.ok(&["take"]);
    std::fs::write(place.path().join("in-use.txt"), place.ok(&["take"])).unwrap();
    let shown = || {
        let of = |space: &str| place.ok(&["space", "show", space, "--json"]);
        [of("codes"), of("default"), place.ok(&["pool", "export", "codes"])]
    };
    let before = shown();
    let commands = [
        // It would discard the keys of the pool.
        "space advance codes --to 5000",
        // It skips half of all keys, and the number may be mistyped.
        "space advance default --to 1760807303104",
        // It skips past what a file says.
        "space advance default --beyond-keys in-use.txt",
        "space seal default",
    ];
    for command in commands {
        let args: Vec<&str> = command.split(' ').collect();
        failed(&alone(&place, &args), 2, "pass --yes to confirm");
        assert_eq!(shown(), before, "{command} has changed something");
    }
    for command in commands {
        let args: Vec<&str> = command.split(' ').chain(["--yes"]).collect();
        let output = alone(&place, &args);
        assert!(output.status.success(), "{command}: {}", stderr(&output));
    }
    assert_ne!(shown(), before);
}

/// What loses nothing is not asked for: it is what the message about a rolled-back store says to type.
#[test]
fn an_advance_that_discards_nothing_needs_no_confirmation() {
    let place = Place::new();
    place.ok(&["take"]);
    let output = alone(&place, &["space", "advance", "default", "--to", "5000"]);
    assert!(output.status.success(), "{}", stderr(&output));
}
