//! `store backup`, and the restore as docs/stores.md describes it.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::serve::Server;
use super::{Place, stderr};

/// Takes keys until it is told to stop.
fn take_until(server: &Server, stop: &AtomicBool) -> Vec<String> {
    let mut keys = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let answer = server.ask("GET", "/get-key", "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        keys.push(answer.rsplit("\r\n").next().unwrap().trim().to_owned());
    }
    keys
}

#[test]
fn a_store_is_backed_up_under_load_and_restored_without_a_key_twice() {
    let place = Place::new();
    // Small leases, so that the store changes while it is copied.
    let settings = "[spaces.default]\nlease_size_min = 1\nlease_size_max = 5\n";
    fs::write(place.path().join("keymill.toml"), settings).unwrap();
    let mut server = Server::start_in(place, &["--listen", "127.0.0.1:0"]);
    let stop = AtomicBool::new(false);
    let mut keys = std::thread::scope(|scope| {
        let taking = scope.spawn(|| take_until(&server, &stop));
        for number in 0..10 {
            server.place.ok(&["store", "backup", &format!("{number}.db")]);
        }
        stop.store(true, Ordering::Relaxed);
        taking.join().unwrap()
    });
    for number in 0..10 {
        let file = server.place.path().join(format!("{number}.db"));
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "the secret is in it");
        let copy = rusqlite::Connection::open(&file).unwrap();
        let found: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(found, "ok");
    }
    server.signal("TERM");
    assert!(server.ended().0.success());

    let place = &server.place;
    let data = place.path().join("keymill");
    for log in ["keymill.db-wal", "keymill.db-shm"] {
        let _ = fs::remove_file(data.join(log));
    }
    fs::copy(place.path().join("0.db"), data.join("keymill.db")).unwrap();
    // Nothing is handed out before somebody has seen to it.
    place.fails(&["take"], 5, "keymill space advance default");
    place.ok(&["space", "advance", "default"]);
    keys.extend(place.ok(&["take", "-n", "2000"]).lines().map(str::to_owned));
    let distinct: HashSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "a key was handed out twice");
    assert!(keys.len() > 2_000, "nothing was taken while the store was copied");
}

#[test]
fn a_file_that_exists_stays_and_a_failure_leaves_nothing() {
    let place = Place::new();
    place.ok(&["take"]);
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(place.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        names
    };
    fs::write(place.path().join("mine.db"), "mine").unwrap();
    let before = names();
    place.fails(&["store", "backup", "mine.db"], 1, "mine.db already exists");
    place.fails(&["store", "backup", "no/such/folder.db"], 1, "cannot write the backup no/such");
    // Somebody's own, or what a backup that was killed has left.
    let unfinished = place.path().join("new.db.unfinished");
    fs::write(&unfinished, "half").unwrap();
    place.fails(&["store", "backup", "new.db"], 1, "new.db.unfinished already exists");
    assert_eq!(fs::read_to_string(&unfinished).unwrap(), "half");
    fs::remove_file(&unfinished).unwrap();
    assert_eq!(names(), before);
    assert_eq!(fs::read_to_string(place.path().join("mine.db")).unwrap(), "mine");
    let output = place.run(&["store", "backup", "new.db"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("run `keymill space advance NAME`"), "{}", stderr(&output));
    assert!(!unfinished.exists());
}

#[test]
fn a_secret_that_was_moved_out_is_not_in_the_copy() {
    let place = Place::new();
    place.ok(&["take"]);
    let secret = place.ok(&["secret", "export", "-"]);
    let secret = secret.trim().as_bytes();
    let holds = |file: &str| {
        let bytes = fs::read(place.path().join(file)).unwrap();
        bytes.windows(secret.len()).any(|it| it == secret)
    };
    place.ok(&["store", "backup", "with.db"]);
    assert!(holds("with.db"), "otherwise the rest shows nothing");
    place.ok(&["secret", "export", "secret.txt", "--forget"]);
    place.ok(&["store", "backup", "without.db"]);
    assert!(!holds("without.db"));
}

#[test]
fn a_copy_has_the_schema_of_the_store_and_the_store_keeps_it() {
    let place = Place::new();
    place.ok(&["take"]);
    let version = |file: &str| -> i64 {
        let database = rusqlite::Connection::open(place.path().join(file)).unwrap();
        let sql = "SELECT max(version) FROM refinery_schema_history";
        database.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    // As an older keymill has left it.
    let store = "keymill/keymill.db";
    let latest = version(store);
    let database = rusqlite::Connection::open(place.path().join(store)).unwrap();
    let sql = "DELETE FROM refinery_schema_history WHERE version = ?1";
    database.execute(sql, [latest]).unwrap();
    database.close().unwrap();
    place.ok(&["store", "backup", "copy.db"]);
    assert_eq!([version(store), version("copy.db")], [latest - 1; 2]);
}

#[test]
fn other_stores_and_servers_are_refused_with_what_to_do() {
    let place = Place::new();
    let backup = |args: &[&str], code, says| {
        place.fails(&[&["store", "backup", "copy.db"], args].concat(), code, says);
        assert!(!place.path().join("copy.db").exists());
    };
    backup(&["--store", "postgres://nobody@127.0.0.1:1/keymill"], 1, "pg_dump");
    backup(&["--store", "redis://127.0.0.1:1"], 1, "append-only folder");
    backup(&["--server", "http://127.0.0.1:1"], 2, "copies the file of the database");
}
