//! Keyspaces: made, listed, shown, advanced and sealed.

use super::Place;

#[test]
fn spaces_are_made_listed_shown_advanced_and_sealed() {
    let place = Place::new();
    let orders =
        ["--alphabet", "base32", "--length", "8", "--prefix", "ord_", "--group", "4", "--check"];
    place.ok(&[&["space", "create", "orders"][..], &orders].concat());
    place.ok(&[&["space", "create", "orders"][..], &orders].concat());
    place.fails(&["space", "create", "orders"], 1, "length is `8` in the store, `7` here");
    assert!(place.ok(&["space", "list"]).contains("orders"));
    assert!(
        place
            .ok(&["space", "show", "orders"])
            .contains("base32×8, prefix ord_, groups of 4, check character")
    );
    place.ok(&["take", "orders"]);
    place.ok(&["space", "advance", "orders", "--to", "1000"]);
    let key = place.ok(&["take", "orders"]);
    let told = place.ok(&["explain", "orders", key.trim_end()]);
    assert!(told.contains("ordinal    1000"), "{told}");
    place.fails(
        &["space", "advance", "orders", "--to", "9999999999999"],
        1,
        "ends at 1099511627776",
    );
    place.fails(&["space", "seal", "orders"], 2, "--yes");
    place.ok(&["space", "seal", "orders", "--yes"]);
    place.fails(&["take", "orders"], 4, "sealed");
    place.fails(&["space", "show", "nope"], 1, "no keyspace `nope`");
    place.fails(&["take", "nope"], 1, "keymill space create nope");
}

/// An alphabet cannot be changed later, so a typing mistake must not become one.
#[test]
fn an_alphabet_that_was_probably_meant_as_a_name_is_refused_where_a_keyspace_is_made() {
    let place = Place::new();
    for (alphabet, meant) in [("bas62", "base62"), ("Base32", "base32"), ("hexx", "hex")] {
        let create = ["space", "create", "links", "--alphabet", alphabet, "--length", "12"];
        place.fails(&create, 2, &format!("did you mean `{meant}`?"));
    }
    // A keyspace of the time when it could be made.
    let earlier = |alphabet: &'static str| {
        ["space", "create", "old", "--kind", "sequential", "--length", "3", "--alphabet", alphabet]
    };
    place.ok(&earlier("bas6X"));
    let db = rusqlite::Connection::open(place.path().join("keymill/keymill.db")).unwrap();
    let rename = "UPDATE spaces SET definition = replace(definition, 'bas6X', 'bas62')";
    assert_eq!(db.execute(rename, []).unwrap(), 1);
    drop(db);
    assert_eq!(place.ok(&["take", "old", "-n", "5"]), "bbb\nbba\nbbs\nbb6\nbb2\n");
    place.ok(&earlier("bas62"));
    place.ok(&["space", "grow", "old", "--length", "4"]);
}

#[test]
fn the_keys_between_two_times_are_those_of_their_leases() {
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
        "4",
    ]);
    place.ok(&["take", "t", "-n", "5"]);
    let bounds = ["space", "bounds", "t", "--from", "2020-01-01T00:00:00Z", "--to"];
    place.fails(&[&bounds[..], &["2021-01-01T00:00:00Z"]].concat(), 1, "no key");
    let now = [&bounds[..], &["2900-01-01T00:00:00Z"]].concat();
    assert_eq!(place.ok(&now), "first  0000\nlast   0004\n");
    place.ok(&["take", "t", "-n", "7"]);
    assert!(place.ok(&[&now[..], &["--json"]].concat()).contains("\"last\": \"0011\""));
    place.ok(&["take"]);
    let other = ["space", "bounds", "default", "--from", "2020-01-01T00:00:00Z", "--to"];
    place.fails(&[&other[..], &["2900-01-01T00:00:00Z"]].concat(), 1, "not ordered by time");
}

#[test]
fn a_key_below_the_start_of_a_keyspace_is_unknown() {
    let place = Place::new();
    let create = ["space", "create", "t", "--kind", "sequential", "--alphabet", "decimal"];
    place.ok(&[&create[..], &["--length", "4", "--start", "100"]].concat());
    assert_eq!(place.ok(&["take", "t"]), "0100\n");
    let told = place.ok(&["explain", "t", "0005"]);
    assert!(told.contains("state      unknown:") && told.contains("`--start`"), "{told}");
    for (key, state) in [("0100", "issued"), ("0101", "unissued")] {
        let told = place.ok(&["explain", "t", key]);
        assert!(told.contains(&format!("state      {state}:")), "{told}");
    }
}

#[test]
fn keys_in_use_count_among_what_a_guess_may_hit() {
    let place = Place::new();
    place.ok(&["space", "create", "codes", "--alphabet", "decimal", "--length", "6"]);
    let shown = place.ok(&["space", "show", "codes"]);
    assert!(shown.contains("guessing     never"), "{shown}");
    let keys: String = (0..10_000).map(|number| format!("{number:06}\n")).collect();
    std::fs::write(place.path().join("used.txt"), keys).unwrap();
    place.ok(&["space", "import-used", "codes", "used.txt"]);
    let shown = place.ok(&["space", "show", "codes"]);
    assert!(shown.contains("named        10,000 "), "{shown}");
    assert!(shown.contains("guessing     1 in 100\n"), "{shown}");
    assert!(place.ok(&["space", "list"]).contains("1 in 100 "), "in the list, too");
    let json = place.ok(&["space", "show", "codes", "--json"]);
    assert!(json.contains("\"named\": 10000") && json.contains("\"density\": 0.01"), "{json}");
}

#[test]
fn all_figures_of_a_snowflake_keyspace_have_separators() {
    let shown = Place::new().ok(&["space", "create", "ids", "--kind", "snowflake"]);
    assert!(shown.contains("workers      1,024, each with up to 4,096,000 "), "{shown}");
}
