//! A path that was mistyped: what needs a store with something in it makes none.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{Place, failed, stderr};

/// Commands that find nothing in a new store.
const EXISTING: [&str; 29] = [
    "space list",
    "space show links",
    "space set links --audit key",
    "space grow links --length 9",
    "space advance links --to 9",
    "space bounds links --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z",
    "space seal links --yes",
    "space export links --for 00000000000000aa --seal",
    "space import-used links keymill.toml",
    "explain links 4fXk2Qz",
    "alias add links sale",
    "alias list links",
    "alias show links sale",
    "alias remove links sale",
    "pool fill links --count 3",
    "pool import links keymill.toml",
    "pool export links",
    "audit export links",
    "token list",
    "token show shop",
    "token rotate shop",
    "token revoke shop",
    "secret export secret.txt",
    "store check",
    "store identity",
    "take links",
    "digest links https://example.com",
    "store backup copy.db",
    "config show",
];

#[test]
fn what_needs_a_store_that_is_there_creates_none() {
    let place = Place::new();
    fs::write(place.path().join("keymill.toml"), "").unwrap();
    for typed in [&["--data-dir", "typo"][..], &["--store", "sqlite:typo.db"], &[]] {
        for command in EXISTING {
            let args: Vec<&str> = command.split(' ').chain(typed.iter().copied()).collect();
            let output = place.run(&args);
            if command != "config show" {
                failed(&output, 1, "does not exist");
                // With the path, and what creates one.
                let path = if typed.is_empty() { "keymill/keymill.db" } else { "typo" };
                assert!(stderr(&output).contains(path), "{command}: {}", stderr(&output));
                assert!(stderr(&output).contains("keymill serve"), "{}", stderr(&output));
            }
            let left: Vec<_> =
                fs::read_dir(place.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
            assert_eq!(left, ["keymill.toml"], "{args:?} made something");
        }
    }
}

#[test]
fn what_begins_with_a_new_store_creates_one() {
    for command in [
        "take",
        "space create links",
        "token create shop --allow take:links",
        "store identity --new-store",
        "store migrate",
    ] {
        let place = Place::new();
        let args: Vec<&str> = command.split(' ').collect();
        place.ok(&args);
        assert!(place.path().join("keymill/keymill.db").exists(), "{command}");
        // Then it is there for the others.
        place.ok(&["space", "list"]);
    }
}

#[test]
fn a_server_that_is_refused_leaves_no_store_behind() {
    let place = Place::new();
    let serve = ["serve", "--data-dir", "typo", "--listen", "0.0.0.0:0"];
    place.fails(&serve, 1, "cannot listen on 0.0.0.0:0 without tokens");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "it made something");
}

/// Another user's folder is neither missing nor empty.
#[test]
fn a_folder_that_may_not_be_entered_is_named_as_that() {
    let place = Place::new();
    place.ok(&["take", "--data-dir", "theirs"]);
    let theirs = place.path().join("theirs");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = place.path().join("keymill");
    // Where the other user can run it.
    let built = env!("CARGO_BIN_EXE_keymill");
    fs::hard_link(built, &binary).or_else(|_| fs::copy(built, &binary).map(drop)).unwrap();
    // Another user, who must be able to come this far.
    let other_user = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.current_dir("/").env_clear().env("HOME", "/nonexistent");
        command
    };
    let reaches = other_user().args(["/usr/bin/test", "-x"]).arg(&binary).status();
    if !reaches.is_ok_and(|status| status.success()) {
        eprintln!("\n*** NOT TESTED: this user cannot become another one with `setpriv` ***\n");
        return;
    }
    let (inside, below) = (theirs.join("keymill.db"), theirs.join("new/keymill.db"));
    let [data_dir, inside, below] =
        [&theirs, &inside, &below].map(|path| path.display().to_string());
    let (inside, below) = (format!("sqlite:{inside}"), format!("sqlite:{below}"));
    for args in [
        &["take", "--data-dir", &data_dir][..],
        &["space", "list", "--data-dir", &data_dir],
        &["store", "check", "--store", &inside],
        &["space", "list", "--store", &inside],
        &["store", "check", "--store", &below],
        &["space", "list", "--store", &below],
    ] {
        let output = other_user().arg(&binary).args(args).output().unwrap();
        let says =
            format!("this user may not enter the folder {data_dir}, which belongs to the user");
        failed(&output, 1, &says);
        assert!(stderr(&output).contains("mode 0700"), "{}", stderr(&output));
        assert!(!stderr(&output).contains("does not exist"), "{}", stderr(&output));
    }
}
