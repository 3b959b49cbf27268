//! A keyspace that moves to another store, with `space export` and `space import`.

use super::{Place, failed, stderr};

/// The other store, with a data directory of its own.
const THERE: [&str; 4] = ["--store", "sqlite:there/keymill.db", "--data-dir", "there"];

#[test]
fn a_keyspace_moves_with_everything_and_goes_on_where_it_was() {
    let place = tickets();
    place.ok(&["alias", "add", "t", "00020", "--owner", "me"]);
    let before = place.ok(&["take", "t", "-n", "10"]);
    let identity = there(&place, &["store", "identity", "--new-store"]);
    place.fails(&["space", "export", "t", "--for", identity.trim()], 1, "--seal");
    let export = place.ok(&["space", "export", "t", "--for", identity.trim(), "--seal"]);
    place.fails(&["take", "t"], 4, "sealed");
    // Cut off or edited, nothing of it is written.
    let lines: Vec<&str> = export.lines().collect();
    let (first, all) = (lines[..lines.len() - 1].join("\n"), export.as_str());
    for (file, text) in [("first", first.as_str()), ("all", all)] {
        std::fs::write(place.path().join(file), text).unwrap();
    }
    failed(&place.run(&[&["space", "import", "first"], &THERE[..]].concat()), 1, "ends early");
    std::fs::write(place.path().join("edited"), all.replace("\"me\"", "\"it\"")).unwrap();
    failed(
        &place.run(&[&["space", "import", "edited"], &THERE[..]].concat()),
        1,
        "was changed or is incomplete",
    );
    failed(&place.run(&[&["take", "t"], &THERE[..]].concat()), 1, "no keyspace `t`");
    there(&place, &["space", "import", "all"]);
    let after = there(&place, &["take", "t", "-n", "11"]);
    assert_eq!(before.lines().last(), Some("00009"));
    let expected: String =
        (10..22).filter(|it| *it != 20).map(|number| format!("{number:05}\n")).collect();
    assert_eq!(after, expected, "the alias stays reserved");
    assert!(there(&place, &["explain", "t", "00003"]).contains("issued"));
    assert!(there(&place, &["alias", "show", "t", "00020"]).contains("me"));
    // It is there already.
    let says = "`t` is already imported into this store";
    failed(&place.run(&[&["space", "import", "all"], &THERE[..]].concat()), 1, says);
}

#[test]
fn a_keyspace_is_exported_for_one_store_only() {
    let place = tickets();
    let export = |store: &str, rest: &[&str]| {
        place.run(&[&["space", "export", "t", "--seal", "--for", store], rest].concat())
    };
    failed(&export("elsewhere", &[]), 1, "store identity");
    assert!(export("00000000000000aa", &[]).status.success());
    assert!(export("00000000000000aa", &[]).status.success(), "it can be repeated");
    failed(&export("00000000000000bb", &[]), 1, "--replace-target");
    let replaced = export("00000000000000bb", &["--replace-target"]);
    assert!(replaced.status.success(), "{}", stderr(&replaced));
    std::fs::write(place.path().join("wrong"), &replaced.stdout).unwrap();
    failed(
        &place.run(&[&["space", "import", "wrong"], &THERE[..]].concat()),
        1,
        "is for the store",
    );
}

#[test]
fn a_keyspace_of_the_same_name_is_not_taken_for_the_one_that_was_exported() {
    let place = tickets();
    let identity = there(&place, &["store", "identity", "--new-store"]);
    let export = place.ok(&["space", "export", "t", "--for", identity.trim(), "--seal"]);
    std::fs::write(place.path().join("all"), export).unwrap();
    let create = ["space", "create", "t", "--kind", "sequential", "--alphabet", "decimal"];
    there(&place, &[&create[..], &["--length", "5"]].concat());
    let says = "already exists in this store and is not being imported";
    failed(&place.run(&[&["space", "import", "all"], &THERE[..]].concat()), 1, says);
}

fn tickets() -> Place {
    let place = Place::new();
    let create = ["space", "create", "t", "--kind", "sequential", "--alphabet", "decimal"];
    place.ok(&[&create[..], &["--length", "5"]].concat());
    place
}

#[track_caller]
fn there(place: &Place, args: &[&str]) -> String {
    place.ok(&[args, &THERE[..]].concat())
}

/// Beside the store where it has issued keys, it would issue the same ones again.
#[test]
fn the_default_keyspace_is_not_created_in_a_store_that_another_moves_to() {
    let place = Place::new();
    let issued = place.ok(&["take", "-n", "3"]);
    place.ok(&["space", "create", "t", "--kind", "sequential", "--length", "5"]);
    place.ok(&["secret", "export", "secret.txt"]);
    let secret = std::fs::read_to_string(place.path().join("secret.txt")).unwrap();
    let run = |args: &[&str]| {
        let args = [args, &THERE[..]].concat();
        place.command(&args).env("KEYMILL_SECRET", secret.trim()).output().unwrap()
    };
    let identity = run(&["store", "identity", "--new-store"]);
    let identity = String::from_utf8(identity.stdout).unwrap();
    let export = place.ok(&["space", "export", "t", "--for", identity.trim(), "--seal"]);
    std::fs::write(place.path().join("t.ndjson"), export).unwrap();
    assert!(run(&["space", "import", "t.ndjson", "--new-store"]).status.success());
    assert!(run(&["take", "t"]).status.success());
    failed(
        &run(&["take", "-n", "3"]),
        1,
        "another store with this secret may have issued its keys",
    );
    // Whoever creates it says that none has; the keys are the same.
    assert!(run(&["space", "create", "default"]).status.success());
    assert_eq!(String::from_utf8(run(&["take", "-n", "3"]).stdout).unwrap(), issued);
}
