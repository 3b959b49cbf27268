//! Taking keys, and asking where one came from.

use super::{Place, failed};

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
    failed(&output, 4, "ended after 10 of 12 keys");
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
    let shown = place.ok(&["space", "show", "default", "--json"]);
    assert!(shown.contains("\"leased\": 100000,"), "one lease and no more: {shown}");
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
