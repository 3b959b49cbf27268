//! The SQLite file that an instance starts on: whether it is the one that was meant, and whether
//! there is only one path to it.

use std::fs;
use std::path::Path;
use std::process::Command;

use keymill_proof::{Deployment, Received, ServerSpec};

use super::{put, take};

#[test]
fn an_instance_whose_file_gets_a_second_link_warns_once_and_goes_on() {
    let deployment = Deployment::sqlite();
    let (backup, database) = (&deployment.path("backup.db"), &deployment.path("keymill.db"));
    goes_on(&deployment, backup, "has 2 hard links", move || {
        fs::hard_link(database, backup).unwrap();
        Some(Undo(Box::new(move || fs::remove_file(backup).unwrap())))
    });
}

#[test]
fn an_instance_whose_file_becomes_a_mount_point_warns_once_and_goes_on() {
    let deployment = Deployment::sqlite();
    let database = &deployment.path("keymill.db");
    goes_on(&deployment, database, "is mounted as a single file", move || {
        let done = Command::new("mount").arg("--bind").args([database, database]).output();
        if !done.as_ref().is_ok_and(|done| done.status.success()) {
            eprintln!("\n*** NOT TESTED: `mount --bind` is not permitted here: {done:?} ***\n");
            return None;
        }
        Some(Undo(Box::new(move || {
            let _ = Command::new("umount").arg("--lazy").arg(database).status();
        })))
    });
}

#[test]
fn a_server_begins_on_an_empty_folder_only_when_told_where_the_secret_is_given() {
    let deployment = Deployment::sqlite();
    let spec = deployment
        .server("d0")
        .env("KEYMILL_SECRET", "a secret from outside, as a container has it");
    let refusal = spec.try_start().unwrap_err();
    assert!(refusal.contains("pass --new-store if no key of it was ever"), "{refusal}");
    assert!(!deployment.path("keymill.db").exists());
    let mut received = Received::default();
    let told = spec.clone().arg("--new-store");
    let mut server = told.start();
    put(&server, "default", "{}");
    received.add(&take(&server, "default", 100));
    assert!(server.stop().success());
    let mut server = spec.start();
    received.add(&take(&server, "default", 100));
    assert!(server.stop().success());
    assert!(!server.log().contains("--new-store is for the first start"), "{}", server.log());
    // Left in place, it would hide the next time that the store is gone.
    let server = told.start();
    received.add(&take(&server, "default", 100));
    server.log_with("--new-store is for the first start");
}

/// Takes something back when it is dropped, by a panic too.
struct Undo<'a>(Box<dyn Fn() + 'a>);

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Gives the database of a running instance another path, at `other`: the instance goes on and says
/// so, and no other one starts until that is gone.
#[track_caller]
fn goes_on<'a>(
    deployment: &Deployment,
    other: &Path,
    says: &str,
    make: impl FnOnce() -> Option<Undo<'a>>,
) {
    let spec = deployment.server("d0").heartbeat(0.1);
    let mut server = spec.start();
    put(&server, "t", r#"{"lease_size_min": 10, "lease_size_max": 10}"#);
    let mut received = Received::default();
    received.add(&take(&server, "t", 10));
    let Some(made) = make() else { return };
    server.log_with(says);
    // Many leases, each of which looks again.
    for _ in 0..20 {
        received.add(&take(&server, "t", 10));
    }
    let by_other = format!("sqlite:{}", other.display());
    let by_other = ServerSpec::keymill(&by_other, deployment.folder(), "d2");
    for other in [deployment.server("d1"), by_other] {
        let refusal = other.try_start().unwrap_err();
        assert!(refusal.contains(says), "{refusal}");
    }
    assert!(server.stop().success());
    assert_eq!(server.log().matches(says).count(), 1, "{}", server.log());
    drop(made);
    let server = spec.start();
    received.add(&take(&server, "t", 10));
}
