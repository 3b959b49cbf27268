//! Slips of somebody who types: each is answered with what was probably meant.

use super::Place;

/// A place with the keyspaces `orders` and `urls`.
fn place() -> Place {
    let place = Place::new();
    place.ok(&["space", "create", "orders"]);
    place.ok(&["space", "create", "urls", "--kind", "digest"]);
    place
}

#[test]
fn every_command_says_what_to_do_about_an_unknown_keyspace() {
    let place = place();
    std::fs::write(place.path().join("empty"), "").unwrap();
    let period = "--from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z";
    for command in [
        "explain ? 4fXk2Qz",
        "digest ? https://example.com",
        "space show ?",
        "space set ? --audit key",
        "space grow ? --length 9",
        "space advance ?",
        "space seal ? --yes",
        "space export ? --for 00000000000000aa",
        "space import-used ? empty",
        &format!("space bounds ? {period}"),
        "alias add ? sale",
        "alias list ?",
        "alias show ? sale",
        "alias remove ? sale",
        "pool fill ? --count 3",
        "pool import ? empty",
        "pool export ?",
        "audit export ?",
    ] {
        for (name, says) in [
            ("ordrs", "no keyspace `ordrs`; did you mean `orders`? `keymill space list` lists"),
            ("nothing-like-it", "no keyspace `nothing-like-it`; `keymill space list` lists"),
        ] {
            let command = command.replace('?', name);
            let args: Vec<&str> = command.split(' ').collect();
            place.fails(&args, 1, says);
        }
    }
}

#[test]
fn a_take_suggests_a_near_name_before_a_new_keyspace() {
    let place = place();
    let says = "no keyspace `order`; did you mean `orders`? If not, create it with `keymill space create order`";
    place.fails(&["take", "order"], 1, says);
    place.fails(&["take", "Orders"], 1, "did you mean `orders`?");
    place.fails(&["take", "new"], 1, "create it with `keymill space create new`, or list");
}

#[test]
fn swapped_arguments_are_noticed() {
    let place = place();
    let says =
        "there is `orders`: the keyspace comes first, as in `keymill explain orders 4fXk2Qz`";
    place.fails(&["explain", "4fXk2Qz", "orders"], 2, says);
    let says = "the keyspace comes first, as in `keymill digest urls https://example.com`";
    place.fails(&["digest", "https://example.com", "urls"], 2, says);
    // A key may be spelt like a keyspace.
    assert_eq!(place.run(&["explain", "orders", "orders"]).status.code(), Some(1));
    place.fails(&["explain", "nope", "4fXk2Qz"], 1, "no keyspace `nope`");
}

#[test]
fn control_characters_of_a_name_are_escaped() {
    let place = place();
    let name = "a\u{1b}[31mb";
    let commands: [&[&str]; 5] = [
        &["take", name],
        &["space", "show", name],
        &["space", "create", name],
        &["alias", "list", name],
        &["digest", name, "urls"],
    ];
    for args in commands {
        let said = super::stderr(&place.run(args));
        assert!(said.contains("`a\\u{1b}[31mb`") && !said.contains('\u{1b}'), "{said:?}");
    }
}

#[test]
fn numbers_in_the_wrong_place_were_meant_as_a_count_or_a_port() {
    let place = place();
    place.fails(&["take", "orders", "3"], 2, "to take 3 keys, use `-n 3`");
    place.fails(&["serve", "8080"], 2, "to listen on port 8080, use `--port 8080`");
    place.fails(&["take", "3"], 2, "run `keymill take -n 3`");
}

#[test]
fn times_are_asked_for_with_an_example() {
    let place = place();
    let says = "must be a time such as 2026-11-16T00:00:00Z";
    place.fails(&["audit", "export", "orders", "--from", "2026-11-16"], 2, says);
    place.fails(&["audit", "export", "orders", "--to", "yesterday"], 2, says);
    place.fails(&["space", "create", "ids", "--kind", "snowflake", "--epoch", "2026"], 2, says);
}

#[test]
fn one_thing_is_not_called_many() {
    let place = place();
    std::fs::write(place.path().join("one"), "0000001\n").unwrap();
    let said = super::stderr(&place.run(&["space", "import-used", "orders", "one"]));
    assert!(said.contains(": 1 key imported, 0 already there, 0 refused"), "{said}");
    let shown = place.ok(&["space", "show", "orders"]);
    assert!(shown.contains("named        1 (aliases, keys in use and digests"), "{shown}");
    let identity = "00000000000000aa";
    let export = place.run(&["space", "export", "orders", "--seal", "--for", identity]);
    let said = super::stderr(&export);
    assert!(said.contains("exported `orders` with 1 row, for"), "{said}");
}
