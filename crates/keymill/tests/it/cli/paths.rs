//! A SQLite file that has more than one path, or lies where it will not stay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Place, failed};

#[test]
fn a_file_with_a_second_link_is_refused_until_that_is_gone() {
    let place = Place::new();
    place.ok(&["take"]);
    let link = place.path().join("linked.db");
    fs::hard_link(place.path().join("keymill/keymill.db"), &link).unwrap();
    let by_link = ["take", "--store", "sqlite:linked.db", "--data-dir", "second"];
    place.fails(&["take"], 1, "has 2 hard links");
    place.fails(&by_link, 1, "Remove the other link");
    place.fails(&["alias", "add", "default", "sale"], 1, "has 2 hard links");
    place.fails(&["space", "seal", "default", "--yes"], 1, "has 2 hard links");
    assert!(!place.path().join("linked.db-wal").exists(), "it was opened");
    is_unsafe(&place, &["store", "check"], "2 hard links");
    fs::remove_file(link).unwrap();
    place.ok(&["take"]);
    assert!(place.ok(&["store", "check", "--json"]).contains("\"found\": \"one\""));
}

#[test]
fn a_file_that_is_mounted_by_itself_is_refused_and_its_folder_is_not() {
    let place = Place::new();
    let first = place.ok(&["take"]);
    let file = place.path().join("file");
    fs::create_dir(&file).unwrap();
    fs::write(file.join("keymill.db"), "").unwrap();
    let original = place.path().join("keymill");
    let Some(mounted) = Mounted::new(&original.join("keymill.db"), &file.join("keymill.db")) else {
        return;
    };
    let store = ["--store", "sqlite:file/keymill.db", "--data-dir", "second"];
    place.fails(&[&["take"][..], &store].concat(), 1, "Mount the folder");
    is_unsafe(&place, &[&["store", "check"][..], &store].concat(), "mounted as a single file");
    // The path that it has always had is still the one.
    let second = place.ok(&["take"]);
    drop(mounted);

    let folder = place.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let Some(mounted) = Mounted::new(&original, &folder) else { return };
    let store = ["--store", "sqlite:folder/keymill.db", "--data-dir", "third"];
    let third = place.ok(&[&["take"][..], &store].concat());
    drop(mounted);
    assert!(first != second && second != third && first != third, "{first}{second}{third}");
}

#[test]
fn a_database_in_memory_is_a_warning() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("\n*** NOT TESTED: this machine has no /dev/shm ***\n");
        return;
    };
    let place = Place::new();
    let store = format!("sqlite:{}/k.db", folder.path().display());
    place.ok(&["take", "--store", &store]);
    let found = place.ok(&["store", "check", "--store", &store]);
    assert!(found.contains("tmpfs") && found.contains("warning"), "{found}");
}

#[track_caller]
fn is_unsafe(place: &Place, args: &[&str], says: &str) {
    let output = place.run(args);
    failed(&output, 1, "");
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(found.contains(says) && found.contains("UNSAFE"), "{found}");
}

/// What was mounted on another path, for as long as this lives.
struct Mounted(PathBuf);

impl Mounted {
    /// `None` where this user may not mount anything: that is said aloud.
    fn new(from: &Path, to: &Path) -> Option<Mounted> {
        let done = Command::new("mount").arg("--bind").args([from, to]).output();
        if done.as_ref().is_ok_and(|done| done.status.success()) {
            return Some(Mounted(to.to_owned()));
        }
        eprintln!("\n*** NOT TESTED: `mount --bind` is not permitted here: {done:?} ***\n");
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A mount that nobody uses any more goes at once, and one in use as soon as it can.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
