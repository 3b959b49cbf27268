//! Output that cannot be written: a reader that has gone, a disk that is full.

use std::fs::OpenOptions;
use std::process::{Output, Stdio};

use super::{Place, failed, stderr};

/// A place with something to print for every command.
fn furnished() -> (Place, String) {
    let place = Place::new();
    let key = place.ok(&["take"]).trim_end().to_owned();
    place.ok(&["alias", "add", "default", "sale"]);
    place.ok(&["space", "create", "ids", "--kind", "snowflake"]);
    place.ok(&["space", "create", "urls", "--kind", "digest"]);
    place.ok(&["space", "create", "codes", "--kind", "pooled"]);
    place.ok(&["pool", "fill", "codes", "--count", "10"]);
    place.ok(&["take", "codes"]);
    (place, key)
}

fn commands(key: &str) -> Vec<Vec<&str>> {
    let ids = "space bounds ids --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z";
    let mut commands: Vec<Vec<&str>> = [
        "--help",
        "--version",
        "help space",
        "take --help",
        "completions bash",
        "man",
        "config show",
        "config show --default",
        "store check",
        "store check --json",
        "store identity",
        "secret export -",
        "space list",
        "space list --json",
        "space show default",
        "space show ids --json",
        "space create default",
        "space set default --audit batch",
        ids,
        "alias list default",
        "alias show default sale",
        "alias add default sale",
        "audit export codes",
        "audit export codes --format csv",
        "pool export codes",
        "digest urls input",
        "take",
        "take -n 50000",
        "take --json",
    ]
    .map(|command| command.split(' ').collect::<Vec<&str>>())
    .to_vec();
    commands.push(vec!["explain", "default", key]);
    commands
}

fn run_into(place: &Place, args: &[&str], stdout: impl Into<Stdio>) -> Output {
    place.command(args).stdout(stdout).output().unwrap()
}

fn full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let (place, key) = furnished();
    for args in commands(&key) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = run_into(&place, &args, writer);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("pipe"), "{args:?}: {said}");
    }
    // What the command found stays what it found.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let invalid = run_into(&place, &["explain", "default", "!"], writer);
    assert_eq!(invalid.status.code(), Some(1));
}

#[test]
fn a_full_disk_is_a_failure_and_says_so() {
    let (place, key) = furnished();
    for args in commands(&key) {
        let output = run_into(&place, &args, full_disk());
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stderr(&output));
        failed(&output, 1, "cannot write to standard output: No space left on device");
    }
}

#[test]
fn messages_that_cannot_be_written_change_nothing() {
    let place = Place::new();
    let code = |args: &[&str]| {
        let mut command = place.command(args);
        command.stdout(Stdio::null()).stderr(full_disk()).status().unwrap().code()
    };
    assert_eq!(code(&["take"]), Some(0), "it says that the keyspace was created");
    assert_eq!(code(&["space", "seal", "default", "--yes"]), Some(0));
    assert_eq!(code(&["take"]), Some(4));
    assert_eq!(code(&["space", "show", "nope"]), Some(1));
    assert_eq!(code(&["frobnicate"]), Some(2));
}
