//! Commands that need no secret, and those that do.

use super::{Place, failed, stderr};

/// A store whose secret was moved out of it, with a sequential keyspace beside the shuffled one.
fn without_secret() -> (Place, String) {
    let place = Place::new();
    let key = place.ok(&["take"]).trim_end().to_owned();
    place.ok(&["alias", "add", "default", "sale"]);
    place.ok(&["space", "create", "tickets", "--kind", "sequential", "--length", "4"]);
    place.ok(&["take", "tickets"]);
    place.ok(&["space", "create", "ids", "--kind", "snowflake"]);
    // Aliases of this alphabet are on record in capitals, however they are typed.
    place.ok(&["space", "create", "codes", "--kind", "pooled", "--alphabet", "base32"]);
    place.ok(&["pool", "fill", "codes", "--count", "10"]);
    place.ok(&["alias", "add", "codes", "abcdefg"]);
    place.ok(&["secret", "export", "secret.txt", "--forget"]);
    (place, key)
}

const READING: [&str; 13] = [
    "space list",
    "space show default",
    "space set default --horizon-seconds 60",
    "space bounds ids --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z",
    "alias list default",
    "alias show default sale",
    "alias show codes abcdefg",
    "pool export codes",
    "explain tickets 0000",
    "audit export default",
    "store check",
    "store identity",
    "config show",
];

#[test]
fn reading_records_and_changing_settings_needs_no_secret() {
    let (place, _) = without_secret();
    for command in READING {
        let args: Vec<&str> = command.split(' ').collect();
        place.ok(&args);
        // Nor the right to read the file that it is in.
        let unreadable = place.command(&args).env("KEYMILL_SECRET_FILE", "nowhere").output();
        let unreadable = unreadable.unwrap();
        assert!(unreadable.status.success(), "{command}: {}", stderr(&unreadable));
    }
    assert!(place.ok(&["alias", "list", "default"]).starts_with("sale "));
    assert_eq!(place.ok(&["pool", "export", "codes"]).lines().count(), 10);
    place.fails(&["alias", "show", "default", "summer"], 1, "summer");
    place.fails(&["pool", "export", "tickets"], 1, "pool");
    let shown = place.ok(&["space", "show", "default"]);
    assert!(shown.contains("horizon_seconds  60\n"), "{shown}");
    place.ok(&["space", "seal", "default", "--yes"]);
}

#[test]
fn a_key_is_explained_without_the_secret_where_it_was_made_without() {
    let (place, key) = without_secret();
    assert!(place.ok(&["explain", "tickets", "0000"]).contains("issued"));
    let explain = ["explain", "default", &key];
    let says = "`default` was made with a secret that is not in the store: set KEYMILL_SECRET";
    place.fails(&explain, 1, says);
    let unreadable = place.command(&explain).env("KEYMILL_SECRET_FILE", "nowhere").output();
    failed(&unreadable.unwrap(), 1, "cannot read the secret in nowhere");
    let with = place.command(&explain).env("KEYMILL_SECRET_FILE", "secret.txt").output().unwrap();
    assert!(with.status.success(), "{}", stderr(&with));
}

#[test]
fn what_makes_keys_needs_the_secret() {
    let (place, _) = without_secret();
    for command in ["take", "take tickets", "space create more", "alias add default more"] {
        let args: Vec<&str> = command.split(' ').collect();
        place.fails(&args, 1, "a secret that is not in the store");
        let unreadable = place.command(&args).env("KEYMILL_SECRET_FILE", "nowhere").output();
        failed(&unreadable.unwrap(), 1, "cannot read the secret in nowhere");
    }
}

/// An empty store is no new one where there is a secret, even if the command does not use that.
#[test]
fn reading_creates_no_store_where_the_secret_is_given() {
    let place = Place::new();
    for (command, says) in [
        ("space list", "nothing to read"),
        ("audit export default", "nothing to read"),
        ("store identity", "--new-store"),
    ] {
        let args: Vec<&str> = command.split(' ').collect();
        let output = place.command(&args).env("KEYMILL_SECRET", "s".repeat(40)).output().unwrap();
        failed(&output, 1, says);
    }
    assert!(!place.path().join("keymill/keymill.db").exists());
}
