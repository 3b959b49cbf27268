//! The store is rolled back under three instances that hold leases the others do not know
//! of. Never a repeated key; it is said everywhere; `space advance` reopens the space.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use keymill_proof::{Server, binary};
use rusqlite::Connection;
use rusqlite::backup::Backup;
use rustix::fs::FlockOperation;

use super::{Received, eventually, get, is_problem, spec, take};

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
type Story = fn(&Path, &mut [Server], &mut Received);

/// The backup knows the first two leases; what the third instance gets after it, and the first
/// two later, only they know themselves.
fn leases_unknown_to_others(folder: &Path, servers: &mut [Server], received: &mut Received) {
    received.add(&take(&servers[0], "default", 10));
    received.add(&take(&servers[1], "default", 10));
    back_up(folder);
    received.add(&take(&servers[2], "default", 10));
}

fn a_range_given_back_and_granted_since(
    folder: &Path,
    servers: &mut [Server],
    received: &mut Received,
) {
    received.add(&take(&servers[0], "default", 10));
    received.add(&take(&servers[1], "default", 10));
    servers[0].stop();
    back_up(folder);
    // The range that came back is granted again, and its keys are handed out.
    received.add(&take(&servers[2], "default", 500));
    servers[0] = Server::start(&spec(folder, "d0"));
}

fn check(way: Way, fate: Fate, story: Story) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut servers: Vec<Server> =
        (0..3).map(|number| Server::start(&spec(folder, &format!("d{number}")))).collect();
    let mut received = Received::default();
    story(folder, &mut servers, &mut received);
    restore(folder, way);
    if fate == Fate::Restarted {
        for (number, server) in servers.iter_mut().enumerate() {
            server.kill();
            *server = Server::start(&spec(folder, &format!("d{number}")));
        }
    }
    let before = received.keys.len();
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
        assert!(get(server, "/readyz").text().contains("store_rolled_back"));
        assert!(get(server, "/metrics").text().contains("code=\"store_rolled_back\""));
        server.log_with("store_rolled_back");
    }
    if fate == Fate::Alive {
        assert!(received.keys.len() > before, "they did not hold on to what they had");
    }
    advance(folder);
    // A running instance finds out at its next heartbeat; here that is far off, so it starts anew.
    for (number, server) in servers.iter_mut().enumerate() {
        assert!(server.stop().success());
        *server = Server::start(&spec(folder, &format!("d{number}")));
        for _ in 0..30 {
            received.add(&take(server, "default", 100));
        }
    }
    println!("{way:?}, {fate:?}: {} keys, none repeated", received.keys.len());
}

#[test]
fn a_living_instance_notices_by_itself_and_goes_on_after_the_advance() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let quick = spec(folder, "d0").env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.2");
    let server = Server::start(&quick);
    let mut received = Received::default();
    received.add(&take(&server, "default", 10));
    back_up(folder);
    received.add(&take(&server, "default", 3_000));
    restore(folder, Way::InPlace);
    eventually("the heartbeat notices", || {
        get(&server, "/readyz").text().contains("store_rolled_back")
    });
    is_problem(&received.drain(server.address(), "default", 1), 503, "store_rolled_back");
    advance(folder);
    eventually("it goes on", || {
        let answer = take(&server, "default", 1_000);
        answer.status == 200 && received.add(&answer) == 1_000
    });
    eventually("all is well again", || get(&server, "/readyz").text().contains("\"problems\":[]"));
}

/// Whoever advances may have nothing but the restored database: then what living instances have seen
/// is on record in it.
#[test]
fn an_advance_by_who_has_seen_nothing_goes_beyond_what_living_instances_report() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let quick = spec(folder, "d0").env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.1");
    let server = Server::start(&quick);
    let mut received = Received::default();
    received.add(&take(&server, "default", 10));
    back_up(folder);
    received.add(&take(&server, "default", 5_000));
    restore(folder, Way::InPlace);
    // As if it was restored on another machine.
    std::fs::remove_file(folder.join("keymill.db-floors.log")).unwrap();
    eventually("what it has seen is on record", || {
        let looker = Connection::open(folder.join("keymill.db")).unwrap();
        let count = "SELECT count(*) FROM sightings WHERE space = 'default'";
        looker.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() == 1
    });
    advance_from(folder, "elsewhere");
    let other = Server::start(&spec(folder, "elsewhere"));
    received.add(&take(&other, "default", 5_000));
    eventually("the first goes on", || {
        let answer = take(&server, "default", 1_000);
        answer.status == 200 && received.add(&answer) == 1_000
    });
}

#[test]
fn an_instance_restarted_on_an_old_store_goes_on_after_the_advance() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let quick = spec(folder, "d0").env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.2");
    let mut received = Received::default();
    let mut server = Server::start(&quick);
    // Twice: the second backup is from before the first advance.
    back_up(folder);
    for _ in 0..2 {
        received.add(&take(&server, "default", 2_000));
        server.kill();
        restore(folder, Way::InPlace);
        server = Server::start(&quick);
        is_problem(&take(&server, "default", 1), 503, "store_rolled_back");
        advance(folder);
        eventually("it goes on", || {
            let answer = take(&server, "default", 1_000);
            answer.status == 200 && received.add(&answer) == 1_000
        });
    }
}

/// A restore that leaves the old log in place: SQLite brings some pages up to date and not others.
#[test]
fn a_backup_put_beside_an_old_log_repeats_nothing() {
    for fate in [Fate::Alive, Fate::Restarted] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let quick = spec(folder, "d0").env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.1");
        let mut server = Server::start(&quick);
        let mut received = Received::default();
        received.add(&take(&server, "default", 10));
        assert!(server.stop().success());
        // What came back is in the backup, and granted again after it.
        back_up(folder);
        server = Server::start(&quick);
        for _ in 0..30 {
            received.add(&take(&server, "default", 100));
        }
        // The log is folded into the database and begun anew, so that it holds only what is new:
        // that of later leases, and nothing of what came back.
        let db = Connection::open(folder.join("keymill.db")).unwrap();
        eventually("the log is folded in", || {
            let busy = "PRAGMA wal_checkpoint(TRUNCATE)";
            db.query_row(busy, [], |row| row.get::<_, i64>(0)).unwrap() == 0
        });
        drop(db);
        assert_eq!(std::fs::metadata(folder.join("keymill.db-wal")).unwrap().len(), 0);
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
        std::fs::rename(folder.join("backup.db"), folder.join("keymill.db")).unwrap();
        if fate == Fate::Restarted {
            match Server::try_start(&quick) {
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
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let log = || std::fs::metadata(folder.join("keymill.db-wal")).map(|log| log.ino()).ok();
    let server = Server::start(&spec(folder, "d0"));
    let before = log();
    assert!(before.is_some());
    let mut received = Received::default();
    for _ in 0..20 {
        // Whoever gets the whole file to itself when it closes removes the log. Nobody may, as
        // long as an instance lives: it would write on where nobody reads.
        assert!(is_locked(&folder.join("keymill.db")), "the instance has lost its lock");
        let looker = Connection::open(folder.join("keymill.db")).unwrap();
        looker.query_row("SELECT count(*) FROM leases", [], |row| row.get::<_, i64>(0)).unwrap();
        looker.close().unwrap();
        assert_eq!(log(), before, "the log was removed under a living instance");
        received.add(&take(&server, "default", 700));
    }
    assert!(get(&server, "/readyz").text().contains("\"problems\":[]"));
}

/// Whether another process has any part of the file locked.
fn is_locked(path: &Path) -> bool {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
}

#[test]
fn a_log_removed_under_an_instance_ends_its_grants_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = Server::start(&spec(folder, "d0"));
    let mut received = Received::default();
    received.add(&take(&first, "default", 10));
    for suffix in ["-wal", "-shm"] {
        std::fs::remove_file(folder.join(format!("keymill.db{suffix}"))).unwrap();
    }
    let refusal = received.drain(first.address(), "default", 100);
    is_problem(&refusal, 503, "no_keys_ready");
    // Why is told by the log alone.
    first.log_with("log of");
    // Whoever comes after it finds the database as old as its last checkpoint.
    if let Ok(second) = Server::try_start(&spec(folder, "d1")) {
        let answer = take(&second, "default", 100);
        if answer.status == 200 {
            received.add(&answer);
        }
    }
}

pub(super) fn back_up(folder: &Path) {
    copy(&folder.join("keymill.db"), &folder.join("backup.db"));
}

pub(super) fn restore(folder: &Path, way: Way) {
    let (backup, live) = (folder.join("backup.db"), folder.join("keymill.db"));
    match way {
        Way::InPlace => copy(&backup, &live),
        Way::Rename => {
            // The log first: an old log beside the older file would bring it up to date again.
            for suffix in ["-wal", "-shm"] {
                let _ = std::fs::remove_file(folder.join(format!("keymill.db{suffix}")));
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
fn advance(folder: &Path) {
    advance_from(folder, "d0");
}

#[track_caller]
fn advance_from(folder: &Path, data_dir: &str) {
    let output = Command::new(binary("keymill"))
        .args(["space", "advance", "default", "--data-dir"])
        .arg(folder.join(data_dir))
        .arg("--store")
        .arg(format!("sqlite:{}", folder.join("keymill.db").display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
