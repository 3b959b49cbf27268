//! The store that a command opens, and the secret in it.

use super::greeting::greeting;
use super::{Place, failed, stderr};

#[test]
fn the_secret_can_be_moved_out_and_a_wrong_one_is_refused() {
    let place = Place::new();
    place.ok(&["take"]);
    place.ok(&["secret", "export", "secret.txt", "--forget"]);
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(place.path().join("secret.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    place.fails(&["secret", "export", "again.txt"], 1, "holds no secret");
    let with =
        |name: &str, value: &str| place.command(&["take"]).env(name, value).output().unwrap();
    assert!(with("KEYMILL_SECRET_FILE", "secret.txt").status.success());
    failed(&with("KEYMILL_SECRET", &"x".repeat(32)), 1, "not the one that the keyspace `default`");
    failed(&with("KEYMILL_SECRET", "short"), 1, "at least 32 characters");
    // Without any, a new one would be made up, and that would not be the right one.
    place.fails(&["take"], 1, "a secret that is not in the store");
}

#[test]
fn a_store_is_checked_setting_by_setting() {
    let place = Place::new();
    place.ok(&["take"]);
    let told = place.ok(&["store", "check"]);
    for setting in ["journal_mode", "synchronous", "filesystem"] {
        assert!(told.contains(setting), "{told}");
    }
    assert!(place.ok(&["store", "check", "--json"]).contains("\"verdict\": \"safe\""));
}

#[test]
fn databases_that_cannot_be_used_are_named() {
    let place = Place::new();
    let take = |url: &str, says: &str| place.fails(&["take", "--store", url], 1, says);
    std::fs::write(
        place.path().join("text.db"),
        "this is not a database, but long enough for one".repeat(99),
    )
    .unwrap();
    take("sqlite:text.db", "is not a SQLite database");
    take("sqlite:no/such/folder/k.db", "no/such/folder: the folder does not exist");
    for (url, says) in [("sqlite:", "needs a path"), ("oracle://x", "`oracle`")] {
        place.fails(&["take", "--store", url], 2, says);
        let by_variable = place.command(&["take"]).env("KEYMILL_STORE", url).output().unwrap();
        failed(&by_variable, 1, says);
    }
    let other = rusqlite::Connection::open(place.path().join("other.db")).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    take("sqlite:other.db", "another program's database");
    let mode: String = other.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete", "it was not touched");
    std::fs::write(place.path().join("file"), "").unwrap();
    place.fails(&["take", "--data-dir", "file/below"], 1, "cannot create the data directory");
}

#[test]
fn a_corrupt_database_is_told_from_an_empty_one() {
    let place = Place::new();
    place.ok(&["take", "--store", "sqlite:k.db"]);
    let path = place.path().join("k.db");
    // Fold the log into the file, then spoil the pages behind the header.
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "journal_mode", "delete").unwrap();
    drop(db);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4_096..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    place.fails(&["take", "--store", "sqlite:k.db"], 1, "corrupt");
}

#[test]
fn a_data_directory_belongs_to_one_store() {
    let place = Place::new();
    place.ok(&["take"]);
    place.fails(&["take", "--store", "sqlite:second.db"], 1, "--data-dir");
    place.ok(&["take", "--store", "sqlite:second.db", "--data-dir", "second"]);
    // The database is lost, and a new one would repeat what the old one handed out.
    for file in ["keymill.db", "keymill.db-wal", "keymill.db-shm", "keymill.db-floors.json"] {
        let _ = std::fs::remove_file(place.path().join("keymill").join(file));
    }
    place.fails(&["take"], 1, "belongs to the store");
}

#[test]
fn require_existing_creates_nothing() {
    let place = Place::new();
    place.fails(&["serve", "--listen", "127.0.0.1:0", "--require-existing"], 1, "does not exist");
    assert!(!place.path().join("keymill/keymill.db").exists());
}

/// Whatever the user's umask allows to others.
#[test]
fn every_file_that_is_made_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    for umask in ["022", "000"] {
        let place = Place::new();
        let run = |args: &[&str]| {
            let script = format!("umask {umask}; exec \"$@\"");
            let keymill = place.command(args);
            let mut shell = std::process::Command::new("/bin/sh");
            shell.args(["-c", &script, "sh"]).arg(keymill.get_program()).args(args);
            shell.current_dir(place.path()).env_clear().env("XDG_DATA_HOME", place.path());
            let output = shell.output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
        };
        run(&["take"]);
        run(&["space", "create", "links"]);
        run(&["secret", "export", "keymill/secret.txt"]);
        // Opened, so that SQLite's log and its index are there too.
        let folder = place.path().join("keymill");
        let database = rusqlite::Connection::open(folder.join("keymill.db")).unwrap();
        database.execute("UPDATE secret SET created_at = created_at", []).unwrap();
        run(&["take", "links"]);
        let mode =
            |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        let files: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 8, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{} with umask {umask}", file.display());
        }
    }
}

#[test]
fn what_holds_the_secret_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.ok(&["take"]);
    let mode = |path: &str| {
        let path = place.path().join(path);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("keymill"), mode("keymill/keymill.db")), (0o700, 0o600));
    let database = ["keymill.db-lock", "keymill.db-floors.log", "keymill.db-floors.lock"];
    for file in database.into_iter().chain(["floors.log", "floors.lock"]) {
        assert_eq!(mode(&format!("keymill/{file}")), 0o600, "{file}");
    }
}

const SECRET: &str = "a secret from outside, as a container has it";

/// The schema may be made anew by somebody who has no secret.
#[test]
fn a_store_without_a_keyspace_is_as_good_as_none_where_the_secret_is_given() {
    let place = Place::new();
    place.ok(&["store", "migrate"]);
    let run = |args: &[&str]| place.command(args).env("KEYMILL_SECRET", SECRET).output().unwrap();
    failed(&run(&["take"]), 1, "--new-store");
    assert!(run(&["space", "create", "default", "--new-store"]).status.success());
    assert!(run(&["take"]).status.success());
}

/// Another store with the same secret may have handed out its keys, which nobody here can know.
#[test]
fn the_default_keyspace_is_never_created_with_a_secret_from_outside() {
    let place = Place::new();
    std::fs::write(place.path().join("secret.txt"), SECRET).unwrap();
    std::fs::write(place.path().join("keymill.toml"), "secret_file = \"secret.txt\"\n").unwrap();
    place.fails(&["take", "--new-store"], 1, "`keymill space create`");
    assert!(!place.path().join("keymill").exists(), "a refused take leaves nothing behind");
    let serve = ["--listen", "127.0.0.1:0", "--new-store"];
    // As long as it has no keyspace, the flag is still needed, and nothing says that it is not.
    for _ in 0..2 {
        let said = greeting(&place, &serve);
        assert!(said.contains("because the secret comes from `secret_file`"), "{said}");
        assert!(!said.contains("  keyspace   "), "{said}");
        assert!(!said.contains("--new-store is for the first start"), "{said}");
        place.fails(&["take"], 1, "pass --new-store if no key of it was ever handed out");
    }
    place.ok(&["space", "create", "default", "--new-store"]);
    let said = greeting(&place, &serve);
    assert!(said.contains("--new-store is for the first start"), "{said}");
    place.ok(&["take"]);
}

/// A container without its volume: the secret is the same, and every key would be too.
#[test]
fn an_empty_store_is_not_taken_for_a_new_one_where_the_secret_is_given() {
    let place = Place::new();
    let run = |args: &[&str]| place.command(args).env("KEYMILL_SECRET", SECRET).output().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let commands: [&[&str]; 3] = [&["take"], &serve, &["store", "migrate"]];
    for command in commands {
        failed(&run(command), 1, "pass --new-store if no key of it was ever handed out");
        assert!(!place.path().join("keymill/keymill.db").exists(), "{command:?}");
    }
    failed(&run(&["store", "check"]), 1, "does not exist or is empty");
    assert!(!place.path().join("keymill").exists(), "not even the folder was made");
    // An empty file is no store either, and stays what it is.
    let file = place.path().join("keymill/keymill.db");
    std::fs::create_dir(place.path().join("keymill")).unwrap();
    std::fs::write(&file, "").unwrap();
    failed(&run(&["take"]), 1, "--new-store");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
    std::fs::write(place.path().join("secret.txt"), SECRET).unwrap();
    let by_file = place.command(&["take"]).env("KEYMILL_SECRET_FILE", "secret.txt").output();
    failed(&by_file.unwrap(), 1, "--new-store");
    let by_file = place.command(&["take"]).env("KEYMILL_SECRET_FILE", "secret.txt").output();
    failed(&by_file.unwrap(), 1, "the secret comes from the variable KEYMILL_SECRET_FILE");
    assert!(run(&["space", "create", "default", "--new-store"]).status.success());
    assert!(run(&["take"]).status.success(), "the next start needs no flag");
}

#[test]
fn an_empty_store_is_created_with_the_variable_and_never_with_require_existing() {
    let place = Place::new();
    let with = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("KEYMILL_SECRET", SECRET).env("KEYMILL_NEW_STORE", "true").output().unwrap()
    };
    let serve = ["serve", "--listen", "127.0.0.1:0", "--require-existing"];
    failed(&with(&serve), 1, "--require-existing forbids creating it");
    assert!(with(&["space", "create", "default"]).status.success());
}
