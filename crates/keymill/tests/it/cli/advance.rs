//! An advance after a restore, from a data directory that knows what was in use and from one that
//! does not.

use std::process::Output;

use super::{Place, failed, stderr};

/// A machine that has the restored database, and nothing else of what was there.
const ELSEWHERE: [&str; 4] = ["--store", "sqlite:keymill/keymill.db", "--data-dir", "elsewhere"];

#[test]
fn an_advance_that_has_seen_nothing_is_refused_and_says_how_to_go_on() {
    let place = tickets();
    place.ok(&["take", "t", "-n", "10"]);
    back_up(&place);
    place.ok(&["take", "t", "-n", "5000"]);
    restore(&place);
    for says in ["--to ORDINAL", "--beyond-keys FILE"] {
        failed(&elsewhere(&place, &["space", "advance", "t"]), 1, says);
    }
    assert_eq!(out(&elsewhere(&place, &["space", "show", "t"])).matches("ordinal 10\n").count(), 1);
    // Where keymill ran before, it is known.
    place.ok(&["space", "advance", "t"]);
    assert_eq!(place.ok(&["take", "t"]), "005010\n");
    // And where it is beyond everything already, there is nothing to go beyond.
    place.fails(&["space", "advance", "t"], 1, "--to ORDINAL");
}

#[test]
fn an_advance_goes_beyond_the_keys_in_use() {
    let place = tickets();
    place.ok(&["take", "t", "-n", "100"]);
    place.ok(&["alias", "add", "t", "950000"]);
    std::fs::write(place.path().join("old.txt"), "900000\n").unwrap();
    place.ok(&["space", "import-used", "t", "old.txt"]);
    back_up(&place);
    let since = place.ok(&["take", "t", "-n", "50"]);
    assert!(since.ends_with("000149\n"), "{since}");
    restore(&place);
    let all: String = (0..100).map(|number| format!("{number:06}\n")).collect();
    let in_use = format!("{all}{since}900000\n\n950000\n12345\n");
    std::fs::write(place.path().join("in-use.txt"), in_use).unwrap();
    let advance = ["space", "advance", "t", "--beyond-keys", "in-use.txt"];
    failed(&elsewhere(&place, &advance), 2, "--yes");
    let advanced = elsewhere(&place, &[&advance[..], &["--yes"]].concat());
    let said = stderr(&advanced);
    assert!(advanced.status.success(), "{said}");
    for line in [
        "read 152 keys of `t`",
        "ignored 1 line that cannot be keys",
        "000149  ordinal 149\n",
        "2,000 ordinals are skipped for keys that may have been handed out but not yet saved",
        "continues at ordinal 2150",
    ] {
        assert!(said.contains(line), "`{line}` is not in {said}");
    }
    assert!(!said.contains("950000") && !said.contains("900000"), "names do not count: {said}");
    assert_eq!(out(&elsewhere(&place, &["take", "t"])), "002150\n");
}

fn tickets() -> Place {
    let place = Place::new();
    let create = ["space", "create", "t", "--kind", "sequential", "--alphabet", "decimal"];
    place.ok(&[&create[..], &["--length", "6"]].concat());
    place
}

fn back_up(place: &Place) {
    std::fs::copy(place.path().join("keymill/keymill.db"), place.path().join("backup")).unwrap();
}

/// Puts the backup in the place of the database, without the floors that were kept beside it.
fn restore(place: &Place) {
    let database = place.path().join("keymill/keymill.db");
    std::fs::rename(place.path().join("backup"), database).unwrap();
    std::fs::remove_file(place.path().join("keymill/keymill.db-floors.log")).unwrap();
}

fn elsewhere(place: &Place, args: &[&str]) -> Output {
    place.run(&[args, &ELSEWHERE].concat())
}

#[track_caller]
fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
