//! Names: aliases, and keys that are in use elsewhere.

use serde_json::{Value, json};

use super::{Place, failed, stderr};

#[test]
fn keys_in_use_are_imported_line_by_line_and_never_handed_out() {
    let place = Place::new();
    let space = ["space", "create", "old", "--kind", "sequential", "--alphabet", "decimal"];
    place.ok(&[&space[..], &["--length", "2"]].concat());
    let lines = b"03\n5\n\n07\r\n\xff\nx1\n03\n123\n09";
    std::fs::write(place.path().join("used.txt"), lines).unwrap();
    let output = place.run(&["space", "import-used", "old", "used.txt"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for line in ["line 2:", "line 5: not UTF-8", "line 6:", "line 7: repeats line 1"] {
        assert!(said.contains(line), "{line} is not in {said}");
    }
    assert!(said.contains("4 keys imported, 0 already there, 4 refused"), "{said}");
    let keys = place.ok(&["take", "old", "-n", "97"]);
    let keys: Vec<&str> = keys.lines().collect();
    assert_eq!(keys.len(), 97);
    assert!(["03", "07", "09"].iter().all(|used| !keys.contains(used)), "{keys:?}");
    place.fails(&["take", "old"], 4, "used up");
    assert!(place.ok(&["explain", "old", "07"]).contains("imported"));
}

#[test]
fn an_alias_is_added_and_removed() {
    let place = Place::new();
    place.ok(&["take"]);
    assert_eq!(place.ok(&["alias", "add", "default", "sale", "--owner", "me"]), "sale\n");
    place.ok(&["alias", "add", "default", "sale", "--owner", "me"]);
    place.fails(&["alias", "add", "default", "sale"], 6, "owned by someone else");
    place.fails(&["alias", "remove", "default", "sale"], 6, "belongs to another owner; name that");
    place.fails(&["alias", "add", "default", "api"], 1, "reserved");
    assert!(place.ok(&["explain", "default", "sale"]).contains("alias of me"));
    place.ok(&["alias", "remove", "default", "sale", "--owner", "me"]);
    place.fails(&["alias", "remove", "default", "sale", "--owner", "me"], 1, "no alias");
}

#[test]
fn aliases_are_listed_and_shown() {
    let place = Place::new();
    place.ok(&["take"]);
    for (alias, owner) in [("sale", "me"), ("Zebra", ""), ("gone", "me")] {
        place.ok(&["alias", "add", "default", alias, "--owner", owner]);
    }
    place.ok(&["alias", "remove", "default", "gone", "--owner", "me"]);
    let listed = place.ok(&["alias", "list", "default"]);
    let words: Vec<Vec<&str>> = listed.lines().map(|it| it.split_whitespace().collect()).collect();
    assert_eq!((words.len(), words[0][0], &words[1][..2]), (2, "Zebra", &["sale", "me"][..]));
    let json = place.ok(&["alias", "list", "default", "--json"]);
    let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&rows[0]["alias"], &rows[0]["owner"]), (&json!("Zebra"), &json!("")));
    assert_eq!((&rows[1]["alias"], &rows[1]["space"]), (&json!("sale"), &json!("default")));
    assert!(rows[1]["created_at"].is_string(), "{json}");
    let shown = place.ok(&["alias", "show", "default", "sale", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), rows[1]);
    for nobody in ["gone", "Sale", "nope"] {
        place.fails(&["alias", "show", "default", nobody], 1, "no alias");
    }
    place.fails(&["alias", "list", "nowhere"], 1, "no keyspace `nowhere`");
    // More than are read at once.
    let db = rusqlite::Connection::open(place.path().join("keymill/keymill.db")).unwrap();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
        INSERT INTO names (space, key, ordinal, purpose, owner, created_at)
        SELECT 'default', 'many-' || i, NULL, 'alias', '', 0 FROM n";
    assert_eq!(db.execute(many, []).unwrap(), 2_500);
    db.close().unwrap();
    let listed = place.ok(&["alias", "list", "default"]);
    let keys: Vec<&str> = listed.lines().filter_map(|it| it.split_whitespace().next()).collect();
    assert_eq!(keys.len(), 2_502);
    assert!(keys.is_sorted_by(|one, two| one < two), "in the order of bytes, each once");
}

#[test]
fn an_alias_that_another_region_will_have_is_refused() {
    let place = Place::new();
    let secret = "one secret of both regions, long enough for it";
    let run = |args: &[&str]| place.command(args).env("KEYMILL_SECRET", secret).output().unwrap();
    let create = ["space", "create", "odd", "--kind", "sequential", "--alphabet", "decimal"];
    let rest = ["--length", "2", "--step", "2", "--offset", "1", "--new-store"];
    assert!(run(&[&create[..], &rest].concat()).status.success());
    failed(&run(&["alias", "add", "odd", "42"]), 1, "another region");
    assert!(run(&["alias", "add", "odd", "43"]).status.success());
    // Once it grows.
    failed(&run(&["alias", "add", "odd", "442"]), 1, "another region");
    assert!(run(&["alias", "add", "odd", "443"]).status.success());
    assert!(run(&["space", "grow", "odd", "--length", "3"]).status.success());
    let keys = run(&["take", "odd", "-n", "600"]);
    let keys = String::from_utf8(keys.stdout).unwrap();
    assert_eq!(keys.lines().count(), 548, "all of both lengths but for two");
    assert!(!keys.lines().any(|key| key == "43" || key == "443"));
}

#[test]
fn owners_and_callers_that_some_store_would_refuse_are_refused_on_every_one() {
    let place = Place::new();
    place.ok(&["take"]);
    for owner in ["a\nb", &"x".repeat(256)] {
        let says = "owner must have at most 255 bytes";
        place.fails(&["alias", "add", "default", "sale", "--owner", owner], 2, says);
        place.fails(&["alias", "remove", "default", "sale", "--owner", owner], 2, says);
    }
    let long = "x".repeat(300);
    place.fails(&["explain", &long, "abc"], 1, "there is no keyspace");
    place.fails(&["alias", "show", "default", &long], 1, "there is no alias");
    let explained = place.run(&["explain", "default", &long]);
    assert!(String::from_utf8_lossy(&explained.stdout).contains("invalid"), "{explained:?}");
}
