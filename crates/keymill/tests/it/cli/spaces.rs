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
    place.fails(&["space", "seal", "orders"], 1, "--yes");
    place.ok(&["space", "seal", "orders", "--yes"]);
    place.fails(&["take", "orders"], 4, "sealed");
    place.fails(&["space", "show", "nope"], 1, "no keyspace `nope`");
    place.fails(&["take", "nope"], 1, "keymill space create nope");
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
    place.fails(&[&other[..], &["2900-01-01T00:00:00Z"]].concat(), 1, "no order of time");
}
