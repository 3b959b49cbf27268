//! Taking keys, and asking where one came from.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use super::serve::Server;
use super::{Place, failed, stderr};

#[test]
fn take_works_with_no_server_and_no_set_up() {
    let place = Place::new();
    let key = place.ok(&["take"]);
    assert_eq!(key.trim_end().len(), 7);
    assert!(place.path().join("keymill/keymill.db").exists());
    let mut keys: Vec<String> =
        place.ok(&["take", "-n", "5000"]).lines().map(str::to_owned).collect();
    keys.push(key.trim_end().to_owned());
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 5_001);
}

#[test]
fn take_leases_exactly_what_it_prints() {
    let place = Place::new();
    place.ok(&[
        "space",
        "create",
        "t",
        "--kind",
        "sequential",
        "--alphabet",
        "decimal",
        "--length",
        "0",
    ]);
    assert_eq!(place.ok(&["take", "t", "-n", "3"]), "0\n1\n2\n");
    assert_eq!(place.ok(&["take", "t"]), "3\n");
    let shown = place.ok(&["space", "show", "t", "--json"]);
    assert!(shown.contains("\"leased\": 4"), "{shown}");
}

#[test]
fn a_default_keyspace_of_another_kind_is_used_as_it_is() {
    let place = Place::new();
    place.ok(&["space", "create", "default", "--kind", "sequential", "--length", "0"]);
    assert_eq!(place.ok(&["take"]), "0\n");
    let server = Server::start_in(place, &["--listen", "127.0.0.1:0"]);
    assert!(server.ask("GET", "/get-key", "").ends_with("\r\n\r\n1"));
    // What the settings say must be so.
    let place = Place::new();
    place.ok(&["space", "create", "default", "--kind", "sequential"]);
    std::fs::write(place.path().join("k.toml"), "[spaces.default]\nkind = \"shuffled\"\n").unwrap();
    place.fails(&["--config", "k.toml", "take"], 1, "already exists with different settings");
}

#[test]
fn a_space_that_ends_says_so_and_exits_with_4() {
    let place = Place::new();
    place.ok(&[
        "space",
        "create",
        "t",
        "--kind",
        "sequential",
        "--alphabet",
        "decimal",
        "--length",
        "1",
    ]);
    let output = place.run(&["take", "t", "-n", "12"]);
    failed(&output, 4, "has no more keys; took 10 of 12");
    assert_eq!(output.stdout, b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    place.fails(&["take", "t"], 4, "used up");
}

#[test]
fn explain_names_the_lease_and_its_holder() {
    let place = Place::new();
    let key = place.ok(&["take"]).trim_end().to_owned();
    let told = place.ok(&["explain", "default", &key]);
    assert!(told.contains("issued") && told.contains("ordinal    0"), "{told}");
    let json = place.ok(&["explain", "default", &key, "--json"]);
    assert!(json.contains("\"state\": \"issued\""), "{json}");
    let output = place.run(&["explain", "default", "-bad-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("invalid"));
}

#[test]
fn take_ends_when_nobody_reads_any_more() {
    let place = Place::new();
    let mut child = place
        .command(&["take", "-n", "1000000000"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert!(leased(&place) <= 10_000, "a piece and no more");
}

/// `take -n 100000 | head -1`: what `head` did not read is not lost with it.
#[test]
fn what_nobody_read_is_given_back() {
    let place = Place::new();
    let mut child = place
        .command(&["take", "-n", "100000"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first.trim_end().len(), 7);
    assert!(child.wait().unwrap().success());
    // The pipe and the buffers at both ends hold some 11,000 keys.
    assert!(leased(&place) < 40_000, "{}", leased(&place));
}

fn leased(place: &Place) -> u64 {
    let shown = place.ok(&["space", "show", "default", "--json"]);
    serde_json::from_str::<Value>(&shown).unwrap()["leased"].as_u64().unwrap()
}

#[test]
fn a_number_where_a_keyspace_is_expected_was_meant_as_a_count() {
    let place = Place::new();
    place.fails(&["take", "5"], 2, "To take 5 keys, run `keymill take -n 5`");
    place.ok(&["space", "create", "4"]);
    place.fails(&["take", "5"], 2, "to take 5 keys, run `keymill take -n 5`");
    place.ok(&["space", "create", "5"]);
    assert_eq!(place.ok(&["take", "5"]).trim_end().len(), 7, "unless there is one of that name");
}

#[test]
fn keys_are_taken_as_json() {
    let place = Place::new();
    let create = ["space", "create", "t", "--kind", "sequential", "--alphabet", "decimal"];
    place.ok(&[&create[..], &["--length", "1", "--prefix", "x_"]].concat());
    let taken = |args: &[&str]| {
        let output = place.run(&[&["take", "t", "--json"], args].concat());
        let json = serde_json::from_slice::<Value>(&output.stdout).ok();
        (output.status.code(), json)
    };
    let keys = |keys: &[&str]| Some(json!({"space": "t", "keys": keys}));
    assert_eq!(taken(&[]), (Some(0), keys(&["x_0"])));
    assert_eq!(taken(&["-n", "2"]), (Some(0), keys(&["x_1", "x_2"])));
    let rest = ["x_3", "x_4", "x_5", "x_6", "x_7", "x_8", "x_9"];
    assert_eq!(taken(&["-n", "9"]), (Some(4), keys(&rest)), "whole, also where the keyspace ends");
    assert_eq!(taken(&[]), (Some(4), None));
}

#[test]
fn quiet_leaves_notes_out_and_errors_in() {
    let place = Place::new();
    let output = place.run(&["take", "--quiet"]);
    assert!(output.status.success());
    assert_eq!((stderr(&output), output.stdout.len()), (String::new(), 8));
    let sealed = place.run(&["-q", "space", "seal", "default", "--yes"]);
    assert_eq!((stderr(&sealed), sealed.status.code()), (String::new(), Some(0)));
    place.fails(&["-q", "take"], 4, "sealed");
}

#[test]
fn plain_integers_are_decimal_unless_an_alphabet_is_named() {
    let place = Place::new();
    let integers = ["--kind", "sequential", "--length", "0"];
    let create = |name: &str, more: &[&str]| {
        place.ok(&[&["space", "create", name], &integers[..], more].concat());
    };
    create("tickets", &[]);
    assert!(place.ok(&["take", "tickets", "-n", "12"]).ends_with("9\n10\n11\n"));
    // A keyspace of the time when base62 was the default, and the settings that made it.
    create("old", &["--alphabet", "base62"]);
    create("old", &[]);
    assert!(place.ok(&["take", "old", "-n", "12"]).ends_with("9\nA\nB\n"));
}

#[test]
fn every_command_can_be_allowed_an_unsafe_store() {
    let place = Place::new();
    place.ok(&["take", "--allow-unsafe-store"]);
    place.ok(&["alias", "add", "default", "sale", "--allow-unsafe-store"]);
}

#[test]
fn a_command_that_has_ended_leaves_one_whole_file() {
    let place = Place::new();
    place.ok(&["take"]);
    place.ok(&["space", "list"]);
    assert!(!place.path().join("keymill/keymill.db-wal").exists(), "the log was not folded in");
}

#[test]
fn a_command_that_has_ended_is_no_living_instance() {
    let place = Place::new();
    place.ok(&["take"]);
    let db = rusqlite::Connection::open(place.path().join("keymill/keymill.db")).unwrap();
    let living = "SELECT count(*) FROM instances WHERE stopped_at IS NULL";
    assert_eq!(db.query_row(living, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}
