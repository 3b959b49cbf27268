//! Growing a keyspace.

use super::{Place, failed, stderr};

#[test]
fn a_keyspace_grows_and_takes_move_on_at_the_seam() {
    let place = Place::new();
    let create =
        ["space", "create", "t", "--kind", "sequential", "--alphabet", "decimal", "--length", "1"];
    place.ok(&create);
    assert_eq!(place.ok(&["take", "t", "-n", "4"]), "0\n1\n2\n3\n");
    // Both will be keys: one of the generation that is there, one of the next.
    place.ok(&["alias", "add", "t", "6"]);
    place.ok(&["alias", "add", "t", "01"]);
    let output = place.run(&["space", "grow", "t", "--length", "2"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let expected = "110 keys instead of 10; keys from ordinal 10 on have length 2";
    assert!(said.contains(expected), "{said}");
    assert_eq!(place.ok(&["take", "t", "-n", "7"]), "4\n5\n7\n8\n9\n00\n02\n");
    // Old keys and new ones explain themselves.
    for (key, ordinal, number) in [("3", 3, 3), ("02", 12, 2)] {
        let told = place.ok(&["explain", "t", key]);
        assert!(told.contains("issued"), "{told}");
        assert!(told.contains(&format!("ordinal    {ordinal}\n")), "{told}");
        assert!(told.contains(&format!("number     {number}\n")), "{told}");
    }
    assert!(place.ok(&["explain", "t", "01"]).contains("alias"));
    let shown = place.ok(&["space", "show", "t"]);
    assert!(shown.contains("decimal×1, then ×2") && shown.contains("110"), "{shown}");
    let shown = place.ok(&["space", "show", "t", "--json"]);
    assert!(shown.contains("\"grown\": [\n    2\n  ]"), "{shown}");
    // The definition that it was made with is still its own.
    place.ok(&create);
    let keys = place.run(&["take", "t", "-n", "200"]);
    failed(&keys, 4, "has no more keys; took 97 of 200");
    assert!(keys.stdout.starts_with(b"03\n04\n") && keys.stdout.ends_with(b"98\n99\n"));
    place.fails(&["take", "t"], 4, "used up");
}

#[test]
fn growth_that_cannot_be_is_refused_with_the_reason() {
    let place = Place::new();
    place.ok(&["space", "create", "links"]);
    place.ok(&["space", "create", "long", "--length", "12"]);
    let integers = ["--kind", "sequential", "--alphabet", "decimal", "--length", "0"];
    place.ok(&[&["space", "create", "tickets"][..], &integers].concat());
    let refused = |name: &str, length: &str, code: i32, says: &str| {
        place.fails(&["space", "grow", name, "--length", length], code, says);
    };
    refused("links", "7", 1, "must be above 7, not 7");
    refused("links", "3", 1, "must be above 7, not 3");
    refused("links", "0", 1, "must be above 7, not 0");
    refused("links", "21", 1, "at most 20");
    refused("links", "300", 2, "300");
    refused("long", "13", 1, "the maximum number of keys");
    refused("tickets", "5", 1, "no length to grow");
    refused("nope", "8", 1, "no keyspace `nope`");
    place.fails(&["space", "grow", "links"], 2, "--length");
    place.ok(&["space", "grow", "links", "--length", "8"]);
    refused("links", "8", 1, "must be above 8, not 8");
    assert!(place.ok(&["space", "grow", "--help"]).contains("Example"));
    place.ok(&["space", "seal", "links", "--yes"]);
    refused("links", "9", 4, "sealed");
}

#[test]
fn a_growth_that_a_restore_lost_is_made_again_by_the_advance() {
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
    let mut keys: Vec<String> =
        place.ok(&["take", "t", "-n", "4"]).lines().map(str::to_owned).collect();
    let database = place.path().join("keymill/keymill.db");
    std::fs::copy(&database, place.path().join("backup")).unwrap();
    place.ok(&["space", "grow", "t", "--length", "3"]);
    keys.extend(place.ok(&["take", "t", "-n", "300"]).lines().map(str::to_owned));
    std::fs::rename(place.path().join("backup"), &database).unwrap();
    place.fails(&["take", "t"], 5, "space advance t");
    // In its place would come another one, and the same keys again behind it.
    place.fails(&["space", "grow", "t", "--length", "2"], 5, "rolled back");
    place.ok(&["space", "advance", "t"]);
    assert!(place.ok(&["space", "show", "t"]).contains("then ×3"));
    let rest = place.ok(&["take", "t", "-n", "700"]);
    keys.extend(rest.lines().map(str::to_owned));
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count, "a key came twice");
}
