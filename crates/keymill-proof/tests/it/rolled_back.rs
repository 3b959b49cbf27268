//! The store is rolled back under three instances that hold leases the others do not know
//! of. Never a repeated key; it is said everywhere; `space advance` reopens the space.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use keymill_proof::{Deployment, Received, Server};
use rusqlite::Connection;
use rusqlite::backup::Backup;
use rustix::fs::FlockOperation;

use super::{eventually, get, gives, has_problem, is_problem, is_well, quiet, take};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// The file is replaced by rename, with its log gone.
    Rename,
    /// The file is restored in place, with SQLite's backup.
    InPlace,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Alive,
    Restarted,
}

#[test]
fn a_file_replaced_under_living_instances_is_noticed() {
    check(Way::Rename, Fate::Alive, leases_unknown_to_others);
}

#[test]
fn a_file_replaced_before_a_restart_is_noticed() {
    check(Way::Rename, Fate::Restarted, leases_unknown_to_others);
}

#[test]
fn a_backup_restored_under_living_instances_is_noticed() {
    check(Way::InPlace, Fate::Alive, leases_unknown_to_others);
}

#[test]
fn a_backup_restored_before_a_restart_is_noticed() {
    check(Way::InPlace, Fate::Restarted, leases_unknown_to_others);
}

#[test]
fn a_range_given_back_in_the_backup_and_granted_since_is_not_granted_again() {
    for way in [Way::Rename, Way::InPlace] {
        for fate in [Fate::Alive, Fate::Restarted] {
            check(way, fate, a_range_given_back_and_granted_since);
        }
    }
}

/// Leads up to the moment of the backup, takes it, and goes on beyond it.
type Story = fn(&Deployment, &mut [Server], &mut Received);

/// The backup knows the first two leases; what the third instance gets after it, and the first
/// two later, only they know themselves.
fn leases_unknown_to_others(
    deployment: &Deployment,
    servers: &mut [Server],
    received: &mut Received,
) {
    received.add(&take(&servers[0], "default", 10));
    received.add(&take(&servers[1], "default", 10));
    back_up(deployment);
    received.add(&take(&servers[2], "default", 10));
}

fn a_range_given_back_and_granted_since(
    deployment: &Deployment,
    servers: &mut [Server],
    received: &mut Received,
) {
    received.add(&take(&servers[0], "default", 10));
    received.add(&take(&servers[1], "default", 10));
    servers[0].stop();
    back_up(deployment);
    // The range that came back is granted again, and its keys are handed out.
    received.add(&take(&servers[2], "default", 500));
    servers[0] = quiet(deployment, "d0").start();
}

fn check(way: Way, fate: Fate, story: Story) {
    let deployment = Deployment::sqlite();
    let mut servers: Vec<Server> =
        ["d0", "d1", "d2"].map(|name| quiet(&deployment, name).start()).into();
    let mut received = Received::default();
    story(&deployment, &mut servers, &mut received);
    restore(&deployment, way);
    if fate == Fate::Restarted {
        for (number, server) in servers.iter_mut().enumerate() {
            server.kill();
            *server = quiet(&deployment, &format!("d{number}")).start();
        }
    }
    let before = received.len();
    // What they hold they hand out; then they refuse, and say why, everywhere.
    for server in &servers {
        let refusal = received.drain(server.address(), "default", 100);
        is_problem(&refusal, 503, "store_rolled_back");
        assert!(
            refusal.text().contains("keymill space advance default --to"),
            "{}",
            refusal.text()
        );
        assert!(refusal.header("retry-after").is_some());
        assert!(has_problem(server, "store_rolled_back"));
        assert!(get(server, "/metrics").text().contains("code=\"store_rolled_back\""));
        server.log_with("store_rolled_back");
    }
    if fate == Fate::Alive {
        assert!(received.len() > before, "they did not hold on to what they had");
    }
    advance(&deployment, "d0");
    // A running instance finds out at its next heartbeat; here that is far off, so it starts anew.
    for (number, server) in servers.iter_mut().enumerate() {
        assert!(server.stop().success());
        *server = quiet(&deployment, &format!("d{number}")).start();
        for _ in 0..30 {
            received.add(&take(server, "default", 100));
        }
    }
    println!("{way:?}, {fate:?}: {} keys, none repeated", received.len());
}

#[test]
fn a_living_instance_notices_by_itself_and_goes_on_after_the_advance() {
    let deployment = Deployment::sqlite();
    let server = deployment.server("d0").heartbeat(0.2).start();
    let mut received = Received::default();
    received.add(&take(&server, "default", 10));
    back_up(&deployment);
    received.add(&take(&server, "default", 3_000));
    restore(&deployment, Way::InPlace);
    eventually("the heartbeat notices", || has_problem(&server, "store_rolled_back"));
    is_problem(&received.drain(server.address(), "default", 1), 503, "store_rolled_back");
    advance(&deployment, "d0");
    eventually("it goes on", || gives(&mut received, &server, "default", 1_000));
    eventually("all is well again", || is_well(&server));
}

/// Whoever advances may have nothing but the restored database: then what living instances have seen
/// is on record in it.
#[test]
fn an_advance_by_who_has_seen_nothing_goes_beyond_what_living_instances_report() {
    let deployment = Deployment::sqlite();
    let server = deployment.server("d0").heartbeat(0.1).start();
    let mut received = Received::default();
    received.add(&take(&server, "default", 10));
    back_up(&deployment);
    received.add(&take(&server, "default", 5_000));
    restore(&deployment, Way::InPlace);
    // As if it was restored on another machine.
    std::fs::remove_file(deployment.path("keymill.db-floors.log")).unwrap();
    eventually("what it has seen is on record", || {
        let looker = Connection::open(deployment.path("keymill.db")).unwrap();
        let count = "SELECT count(*) FROM sightings WHERE space = 'default'";
        looker.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() == 1
    });
    advance(&deployment, "elsewhere");
    let other = quiet(&deployment, "elsewhere").start();
    received.add(&take(&other, "default", 5_000));
    eventually("the first goes on", || gives(&mut received, &server, "default", 1_000));
}

#[test]
fn an_instance_restarted_on_an_old_store_goes_on_after_the_advance() {
    let deployment = Deployment::sqlite();
    let quick = deployment.server("d0").heartbeat(0.2);
    let mut received = Received::default();
    let mut server = quick.start();
    // Twice: the second backup is from before the first advance.
    back_up(&deployment);
    for _ in 0..2 {
        received.add(&take(&server, "default", 2_000));
        server.kill();
        restore(&deployment, Way::InPlace);
        server = quick.start();
        is_problem(&take(&server, "default", 1), 503, "store_rolled_back");
        advance(&deployment, "d0");
        eventually("it goes on", || gives(&mut received, &server, "default", 1_000));
    }
}

/// A restore that leaves the old log in place: SQLite brings some pages up to date and not others.
#[test]
fn a_backup_put_beside_an_old_log_repeats_nothing() {
    for fate in [Fate::Alive, Fate::Restarted] {
        let deployment = Deployment::sqlite();
        let quick = deployment.server("d0").heartbeat(0.1);
        let mut server = quick.start();
        let mut received = Received::default();
        received.add(&take(&server, "default", 10));
        assert!(server.stop().success());
        // What came back is in the backup, and granted again after it.
        back_up(&deployment);
        server = quick.start();
        for _ in 0..30 {
            received.add(&take(&server, "default", 100));
        }
        // The log is folded into the database and begun anew, so that it holds only what is new:
        // that of later leases, and nothing of what came back.
        let db = Connection::open(deployment.path("keymill.db")).unwrap();
        eventually("the log is folded in", || {
            let busy = "PRAGMA wal_checkpoint(TRUNCATE)";
            db.query_row(busy, [], |row| row.get::<_, i64>(0)).unwrap() == 0
        });
        drop(db);
        assert_eq!(std::fs::metadata(deployment.path("keymill.db-wal")).unwrap().len(), 0);
        let leases = || {
            get(&server, "/metrics")
                .lines()
                .find(|line| line.starts_with("keymill_leases_total"))
                .map(str::to_owned)
        };
        let before = leases();
        eventually("another lease is granted", || {
            received.add(&take(&server, "default", 1_000));
            leases() != before
        });
        if fate == Fate::Restarted {
            server.kill();
        }
        std::fs::rename(deployment.path("backup.db"), deployment.path("keymill.db")).unwrap();
        if fate == Fate::Restarted {
            match quick.try_start() {
                Ok(restarted) => server = restarted,
                // A database that such a mixture has spoilt may also be refused as corrupt.
                Err(refusal) => {
                    println!("{refusal}");
                    continue;
                }
            }
        }
        let mut client = keymill_proof::Client::new(server.address());
        for _ in 0..200 {
            let answer = client.take("default", 100).unwrap();
            if answer.status != 200 {
                println!("{fate:?}: {}", answer.text());
                break;
            }
            received.add(&answer);
        }
    }
}

#[test]
fn another_program_that_looks_at_the_database_changes_nothing() {
    let deployment = Deployment::sqlite();
    let log = || std::fs::metadata(deployment.path("keymill.db-wal")).map(|log| log.ino()).ok();
    let server = quiet(&deployment, "d0").start();
    let before = log();
    assert!(before.is_some());
    let mut received = Received::default();
    for _ in 0..20 {
        // Whoever gets the whole file to itself when it closes removes the log. Nobody may, as
        // long as an instance lives: it would write on where nobody reads.
        assert!(is_locked(&deployment.path("keymill.db")), "the instance has lost its lock");
        let looker = Connection::open(deployment.path("keymill.db")).unwrap();
        looker.query_row("SELECT count(*) FROM leases", [], |row| row.get::<_, i64>(0)).unwrap();
        looker.close().unwrap();
        assert_eq!(log(), before, "the log was removed under a living instance");
        received.add(&take(&server, "default", 700));
    }
    assert!(is_well(&server));
}

/// Whether another process has any part of the file locked.
fn is_locked(path: &Path) -> bool {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
}

#[test]
fn a_log_removed_under_an_instance_ends_its_grants_and_repeats_nothing() {
    let deployment = Deployment::sqlite();
    let first = quiet(&deployment, "d0").start();
    let mut received = Received::default();
    received.add(&take(&first, "default", 10));
    for suffix in ["-wal", "-shm"] {
        std::fs::remove_file(deployment.path(&format!("keymill.db{suffix}"))).unwrap();
    }
    let refusal = received.drain(first.address(), "default", 100);
    is_problem(&refusal, 503, "no_keys_ready");
    // Why is told by the log alone.
    first.log_with("log of");
    // Whoever comes after it finds the database as old as its last checkpoint.
    if let Ok(second) = quiet(&deployment, "d1").try_start() {
        let answer = take(&second, "default", 100);
        if answer.status == 200 {
            received.add(&answer);
        }
    }
}

pub(super) fn back_up(deployment: &Deployment) {
    copy(&deployment.path("keymill.db"), &deployment.path("backup.db"));
}

pub(super) fn restore(deployment: &Deployment, way: Way) {
    let (backup, live) = (deployment.path("backup.db"), deployment.path("keymill.db"));
    match way {
        Way::InPlace => copy(&backup, &live),
        Way::Rename => {
            // The log first: an old log beside the older file would bring it up to date again.
            for suffix in ["-wal", "-shm"] {
                let _ = std::fs::remove_file(deployment.path(&format!("keymill.db{suffix}")));
            }
            std::fs::rename(&backup, &live).unwrap();
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let from = Connection::open(from).unwrap();
    let mut to = Connection::open(to).unwrap();
    let backup = Backup::new(&from, &mut to).unwrap();
    backup.run_to_completion(1_000, std::time::Duration::from_millis(5), None).unwrap();
}

#[track_caller]
fn advance(deployment: &Deployment, data_dir: &str) {
    deployment.run(data_dir, &["space", "advance", "default"]);
}
