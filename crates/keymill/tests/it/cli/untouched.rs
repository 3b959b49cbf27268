//! `store check` looks at a SQLite store and leaves everything as it is.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::SystemTime;

use super::Place;

#[test]
fn a_store_that_does_not_exist_is_not_made() {
    let place = Place::new();
    let says = "does not exist or is empty, so there is nothing to read or change";
    let stores: [&[&str]; 3] =
        [&[], &["--store", "sqlite:typo.db"], &["--store", "sqlite:no/such.db"]];
    for store in stores {
        is_unchanged(&place, || place.fails(&[&["store", "check"][..], store].concat(), 1, says));
    }
    fs::write(place.path().join("empty.db"), "").unwrap();
    let empty = ["store", "check", "--store", "sqlite:empty.db"];
    is_unchanged(&place, || place.fails(&empty, 1, says));
}

#[test]
fn a_store_that_nobody_has_open_is_left_as_it_is() {
    let place = Place::new();
    place.ok(&["take"]);
    for file in ["keymill.db-lock", "keymill.db-floors.lock", "floors.lock"] {
        fs::remove_file(place.path().join("keymill").join(file)).unwrap();
    }
    is_unchanged(&place, || {
        assert!(place.ok(&["store", "check"]).contains("safe"));
        assert!(place.ok(&["store", "check", "--json"]).contains("\"found\": \"wal\""));
    });
    place.ok(&["take"]);
}

#[test]
fn a_store_that_is_not_in_wal_mode_is_not_changed_to_it() {
    let place = Place::new();
    place.ok(&["take"]);
    let path = place.path().join("keymill/keymill.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database.pragma_update(None, "journal_mode", "delete").unwrap();
    database.close().unwrap();
    is_unchanged(&place, || {
        let found = place.ok(&["store", "check"]);
        assert!(found.contains("rollback journal") && found.contains("warning"), "{found}");
    });
}

/// The log holds what the file does not; whoever opens it to write folds it in and removes it.
#[test]
fn the_log_of_an_instance_that_was_killed_is_left_to_the_next_one() {
    let place = Place::new();
    let mut serve = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut serve = serve.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(serve.stderr.take().unwrap()).lines();
    let is_up = said.any(|line| line.unwrap().contains("listening"));
    serve.kill().unwrap();
    serve.wait().unwrap();
    assert!(is_up && place.path().join("keymill/keymill.db-wal").exists());
    is_unchanged(&place, || assert!(place.ok(&["store", "check"]).contains("wal")));
    place.ok(&["take"]);
}

#[test]
fn a_database_of_another_program_is_named() {
    let place = Place::new();
    let other = rusqlite::Connection::open(place.path().join("other.db")).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    other.close().unwrap();
    fs::write(place.path().join("text.db"), "this is not a database".repeat(99)).unwrap();
    is_unchanged(&place, || {
        let check = |url, says| place.fails(&["store", "check", "--store", url], 1, says);
        check("sqlite:other.db", "another program's database");
        check("sqlite:text.db", "is not a SQLite database");
    });
}

#[track_caller]
fn is_unchanged(place: &Place, look: impl FnOnce()) {
    let before = everything(place.path());
    look();
    let after = everything(place.path());
    let names = |all: &BTreeMap<PathBuf, Entry>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
    for (path, entry) in before {
        assert!(after[&path] == entry, "{} has changed", path.display());
    }
}

#[derive(PartialEq)]
struct Entry {
    changed_at: Option<SystemTime>,
    content: Vec<u8>,
}

/// All files and folders. The index of SQLite's log is only listed: it is shared memory, in which
/// readers leave marks.
fn everything(folder: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_index = path.to_string_lossy().ends_with("-shm");
        let changed_at = fs::metadata(&path).unwrap().modified().unwrap();
        let changed_at = (!is_index).then_some(changed_at);
        let mut content = Vec::new();
        if path.is_dir() {
            found.extend(everything(&path));
        } else if !is_index {
            content = fs::read(&path).unwrap();
        }
        found.insert(path, Entry { changed_at, content });
    }
    found
}
