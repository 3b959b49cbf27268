//! MySQL and MariaDB: servers whose settings change what statements mean, and a switchover from one
//! server to another whose connections stay open.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keymill_proof::backend::{Backend, MariaDb, Missing, Mysql, skip};
use keymill_proof::{Client, Server};

use super::super::{Received, eventually, get, put, take};
use super::{is_ready, keymill, quiet, succeeds, watchful};

/// Keys that are numbers, so that it is known which will come.
const TICKETS: &str = r#"{"kind": "sequential", "alphabet": "decimal", "length": 9,
    "lease_size_min": 200, "lease_size_max": 200}"#;
/// How long instances may need to go on once there is a server that takes writes: several times what
/// they pause between two attempts.
const RESUMED_MAX: Duration = Duration::from_secs(10);

#[test]
fn a_limit_that_the_server_sets_hides_no_key_in_use_on_mariadb() {
    match MariaDb::start() {
        Ok(server) => check_limit(&server.url(), |statements| server.sql(statements)),
        Err(missing) => skip(&missing),
    }
}

#[test]
fn a_limit_that_the_server_sets_hides_no_key_in_use_on_mysql9() {
    match Mysql::start() {
        Ok(server) => check_limit(&server.url(), |statements| server.sql(statements)),
        Err(missing) => skip(&missing),
    }
}

fn check_limit(url: &str, sql: impl Fn(&str) -> String) {
    // Before keymill connects for the first time: the schema is made under it too.
    sql("SET GLOBAL sql_select_limit = 5, GLOBAL time_zone = '+05:00'");
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&watchful(url, folder.path(), "d0"));
    put(&server, "tickets", TICKETS);
    let in_use: HashSet<String> = (0..2_000).map(ticket).collect();
    import(url, folder.path(), in_use.iter());
    let mut received = Received::default();
    for _ in 0..20 {
        received.add(&take(&server, "tickets", 50));
    }
    let both: Vec<_> = received.keys.intersection(&in_use).collect();
    assert!(both.is_empty(), "{} keys in use were handed out: {both:?}", both.len());
    // Nor does it hide a keyspace, or the way back to one after a new start.
    let names: Vec<String> = (0..8).map(|number| format!("more-{number}")).collect();
    for name in &names {
        put(&server, name, "{}");
    }
    drop(server);
    let again = Server::start(&quiet(url, folder.path(), "d0"));
    let listed = get(&again, "/v1/spaces");
    for name in &names {
        assert!(
            listed.text().contains(&format!("\"{name}\"")),
            "{name} is not in {}",
            listed.text()
        );
        received.add(&take(&again, name, 1));
    }
}

/// The server refuses the writes of this user by itself.
#[test]
fn a_switchover_goes_unnoticed_for_a_user_who_may_not_write_to_a_read_only_server() {
    check_switchover(
        "app:secret",
        "CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT ALL ON keymill.* TO app@'127.0.0.1'",
    );
}

/// An administrator may go on writing where nobody follows any more, and must notice by himself.
#[test]
fn a_switchover_goes_unnoticed_for_an_administrator_too() {
    check_switchover("keymill:secret", "DO 0");
}

fn check_switchover(user: &str, make_user: &str) {
    let (old, new) = match pair() {
        Ok(pair) => pair,
        Err(missing) => return skip(&missing),
    };
    old.sql(&format!("CREATE DATABASE keymill; {make_user}"));
    let both = format!("mysql://{user}@127.0.0.1:{},127.0.0.1:{}/keymill", old.port(), new.port());
    let folder = tempfile::tempdir().unwrap();
    let servers = ["d0", "d1"].map(|name| Server::start(&watchful(&both, folder.path(), name)));
    put(&servers[0], "tickets", TICKETS);
    // Every tenth, further than the load gets.
    let in_use: HashSet<String> = (0..500_000).step_by(10).map(ticket).collect();
    import(&both, folder.path(), in_use.iter());

    let received = Mutex::new(Received::default());
    let refusals = Mutex::new(HashSet::new());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = Over(&done);
        for address in servers.each_ref().map(Server::address) {
            let (received, refusals, done) = (&received, &refusals, &done);
            scope.spawn(move || {
                let mut client = Client::new(address);
                while !done.load(Ordering::SeqCst) {
                    let answer = client.take("tickets", 20).unwrap();
                    match answer.status {
                        200 => _ = received.lock().unwrap().add(&answer),
                        _ => _ = refusals.lock().unwrap().insert(answer.text().to_owned()),
                    }
                    // The keys in use are to last.
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        let count = || received.lock().unwrap().keys.len();
        eventually("many leases were granted", || count() > 5_000);
        switch_over(&old, &new);
        let (promoted, before) = (Instant::now(), count());
        // More than they can have had at hand.
        eventually("they have moved over", || count() > before + 2_000);
        let waited = promoted.elapsed();
        println!("keys went on {waited:?} after the new server took writes");
        assert!(waited < RESUMED_MAX, "it took {waited:?}");
        let before = count();
        eventually("they stay there", || count() > before + 5_000);
    });
    let (received, refusals) = (received.into_inner().unwrap(), refusals.into_inner().unwrap());
    let rolled_back = refusals.iter().find(|refusal| refusal.contains("rolled_back"));
    assert_eq!(rolled_back, None, "nothing was lost");
    for server in &servers {
        eventually("all is well", || is_ready(server));
        assert!(!server.log().contains("rolled back to an earlier state"), "{}", server.log());
    }
    let both: Vec<_> = received.keys.intersection(&in_use).collect();
    assert!(both.is_empty(), "{} keys in use were handed out: {both:?}", both.len());
    let last = received.keys.iter().max().unwrap();
    assert!(*last < ticket(500_000), "the load went beyond the keys in use, to {last}");
    let leases = |server: &MariaDb| -> u64 {
        server.sql("SELECT COUNT(*) FROM keymill.leases").trim().parse().unwrap()
    };
    assert!(leases(&new) > leases(&old), "leases were granted on the new server");
    println!("{} keys over the switchover, none twice", received.keys.len());
}

/// Two servers, the second of which follows the first.
fn pair() -> Result<(MariaDb, MariaDb), Missing> {
    let with = |id: u32| {
        let id = format!("--server-id={id}");
        let settings = ["--log-bin=log", "--log-slave-updates", "--sync-binlog=1", &id];
        MariaDb::with(settings.map(str::to_owned).to_vec())
    };
    let (primary, replica) = (with(1)?, with(2)?);
    // Both have made their users already: what is written from here on is followed.
    primary.sql("RESET MASTER");
    let port = primary.port();
    replica.sql(&format!(
        "RESET MASTER; SET GLOBAL gtid_slave_pos = ''; SET GLOBAL read_only = 1; \
         CHANGE MASTER TO master_host = '127.0.0.1', master_port = {port}, master_user = 'keymill', \
         master_password = 'secret', master_connect_retry = 1, master_use_gtid = slave_pos; \
         START SLAVE"
    ));
    Ok((primary, replica))
}

/// As an operator does it: connections to the old server stay open.
fn switch_over(old: &MariaDb, new: &MariaDb) {
    old.sql("SET GLOBAL read_only = 1");
    // What an administrator had begun may still end.
    let mut position = String::new();
    eventually("the old server stands still", || {
        let before = std::mem::replace(&mut position, old.sql("SELECT @@gtid_binlog_pos"));
        std::thread::sleep(Duration::from_millis(300));
        before == position
    });
    let reached = format!("SELECT MASTER_GTID_WAIT('{}', 20)", position.trim());
    assert_eq!(new.sql(&reached).trim(), "0", "the new server did not catch up");
    new.sql("STOP SLAVE; SET GLOBAL read_only = 0");
}

/// Ends the callers, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The key of an ordinal.
fn ticket(ordinal: u64) -> String {
    format!("{ordinal:09}")
}

/// Says that keys are in use.
fn import<'a>(store: &str, folder: &Path, keys: impl Iterator<Item = &'a String>) {
    let file: PathBuf = folder.join("in-use");
    fs::write(&file, keys.map(|key| format!("{key}\n")).collect::<String>()).unwrap();
    let file = file.display().to_string();
    let import = ["space", "import-used", "tickets", &file];
    println!("{}", succeeds(&keymill(store, &folder.join("importer"), &import)));
}
