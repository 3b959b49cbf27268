//! Settings of a keyspace: shown, and changed without repeating its definition.

use serde_json::Value;

use super::{Place, stderr};

const ORDERS: [&str; 9] =
    ["space", "create", "orders", "--alphabet", "base32", "--length", "8", "--prefix", "ord_"];

#[test]
fn settings_change_without_the_definition() {
    let place = Place::new();
    place.ok(&ORDERS);
    let create = ["space", "create", "orders", "--audit", "key", "--lease-size-max", "5000"];
    place.fails(&create, 1, "run `keymill space set orders --audit key --lease-size-max 5000`");
    place.fails(&["space", "create", "orders"], 1, "keymill space set --help");
    let set = place.run(&["space", "set", "orders", "--audit", "key", "--lease-size-max", "5000"]);
    let said = stderr(&set);
    assert!(said.contains("running instances follow with their next heartbeat"), "{said}");
    let shown = place.ok(&["space", "show", "orders", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["audit"], &shown["lease_size_max"]), (&"key".into(), &5_000.into()));
    assert_eq!((&shown["lease_size_min"], &shown["length"]), (&1_000.into(), &8.into()));
    let again = place.run(&["space", "set", "orders", "--audit", "key"]);
    let said = stderr(&again);
    assert!(said.contains("nothing to change: `orders` already has these settings"), "{said}");
    place.ok(&["take", "orders", "--caller", "shop"]);
    assert!(place.ok(&["audit", "export", "orders"]).contains("\"caller\":\"shop\""));
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let place = Place::new();
    place.ok(&ORDERS);
    place.fails(&["space", "set", "orders"], 2, "--lease-size-max");
    place.fails(&["space", "set", "orders", "--length", "9"], 2, "--length");
    place.fails(&["space", "set", "orders", "--horizon-seconds", "0"], 2, "from 1 to 604800");
    let sizes = ["--lease-size-min", "20", "--lease-size-max", "10"];
    place.fails(&[&["space", "set", "orders"], &sizes[..]].concat(), 2, "lease_size_max");
    // Whether this one fits depends on the keyspace.
    place.fails(&["space", "set", "orders", "--lease-size-max", "10"], 1, "lease_size_min (1000)");
    place.fails(&["space", "set", "nope", "--audit", "key"], 1, "no keyspace `nope`");
    place.ok(&["space", "create", "ids", "--kind", "uuid"]);
    place.fails(&["space", "set", "ids", "--audit", "key"], 1, "not available for kind uuid");
}

#[test]
fn settings_that_mean_nothing_for_the_kind_are_refused() {
    let place = Place::new();
    place.ok(&ORDERS);
    place.ok(&["space", "create", "codes", "--kind", "pooled"]);
    place.ok(&["space", "create", "ids", "--kind", "snowflake"]);
    let set = |name: &'static str, flag: &'static str| ["space", "set", name, flag, "60"];
    for flag in ["--low-water", "--ttl-seconds", "--reserve-seconds"] {
        let setting = flag.trim_start_matches('-').replace('-', "_");
        let says = format!("`orders` is of kind shuffled, which has no setting `{setting}`");
        place.fails(&set("orders", flag), 1, &says);
        place.ok(&set("codes", flag));
    }
    place.fails(&set("codes", "--window-seconds"), 1, "no setting `window_seconds`");
    place.ok(&set("ids", "--window-seconds"));
    place.fails(&set("ids", "--horizon-seconds"), 1, "no setting `horizon_seconds`");
    let shown = place.ok(&["space", "show", "orders", "--json"]);
    assert!(shown.contains("\"low_water\": 0"), "nothing has changed:\n{shown}");
}

#[test]
fn a_keyspace_is_shown_with_all_its_settings() {
    let place = Place::new();
    place.ok(&ORDERS);
    // No key is skipped, so that figures are exact.
    place.ok(&["space", "set", "orders", "--blocklist", "false"]);
    place.ok(&["take", "orders", "-n", "5000"]);
    let shown = place.ok(&["space", "show", "orders"]);
    for line in [
        "capacity     1,099,511,627,776",
        "leased       5,000",
        "next         ordinal 5000",
        "  alphabet         base32",
        "  length           8",
        "  prefix           ord_",
        "  step             1",
        "  audit            batch",
        "  blocklist        false",
        "  horizon_seconds  900",
        "  lease_size_max   100,000,000",
        "Settings, changed with `keymill space set orders`:",
    ] {
        assert!(shown.lines().any(|it| it == line), "`{line}` is not in\n{shown}");
    }
    assert!(!shown.contains("low_water"), "it has no pool:\n{shown}");
    assert!(place.ok(&["space", "list"]).contains(" 5,000 "));
    assert!(place.ok(&["space", "list", "--json"]).contains("\"leased\": 5000,"));
    place.ok(&["space", "create", "codes", "--kind", "pooled"]);
    place.ok(&["space", "create", "ids", "--kind", "snowflake"]);
    place.ok(&["space", "create", "urls", "--kind", "digest", "--normalize", "url"]);
    for (name, line) in [
        ("codes", "  low_water        0"),
        ("codes", "  reserve_seconds  300"),
        ("ids", "  window_seconds   60"),
        ("ids", "  layout           41/10/12"),
        ("urls", "  normalize        url"),
    ] {
        let shown = place.ok(&["space", "show", name]);
        assert!(shown.lines().any(|it| it == line), "`{line}` is not in\n{shown}");
    }
}

#[test]
fn an_export_of_used_keys_says_where_none_are_recorded() {
    let place = Place::new();
    place.ok(&["take"]);
    let export = place.run(&["audit", "export", "default"]);
    assert!(export.status.success() && export.stdout.is_empty());
    let said = stderr(&export);
    assert!(said.contains("`keymill space set default --audit key`"), "{said}");
    assert!(stderr(&place.run(&["audit", "export", "default", "--quiet"])).is_empty());
    place.ok(&["space", "set", "default", "--audit", "key"]);
    assert!(stderr(&place.run(&["audit", "export", "default"])).is_empty());
}
