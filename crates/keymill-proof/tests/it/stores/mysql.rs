//! MySQL and MariaDB: servers whose settings change what statements mean, and a switchover from one
//! server to another whose connections stay open.

use std::time::{Duration, Instant};

use keymill_proof::backend::{Backend, MariaDb, Missing, Mysql, unless_missing};
use keymill_proof::{Caller, Deployment, Fleet, Load, Received};

use super::super::{eventually, get, is_well, put, quiet, take, watchful};
use super::{await_more, import_used};

/// Keys that are numbers, so that it is known which will come.
const TICKETS: &str = r#"{"kind": "sequential", "alphabet": "decimal", "length": 9,
    "lease_size_min": 200, "lease_size_max": 200}"#;
/// How long instances may need to go on once there is a server that takes writes: several times what
/// they pause between two attempts.
const RESUMED_MAX: Duration = Duration::from_secs(10);

#[test]
fn a_limit_that_the_server_sets_hides_no_key_in_use_on_mariadb() {
    if let Some(server) = unless_missing(MariaDb::start()) {
        check_limit(&server.url(), |statements| server.sql(statements));
    }
}

#[test]
fn a_limit_that_the_server_sets_hides_no_key_in_use_on_mysql9() {
    if let Some(server) = unless_missing(Mysql::start()) {
        check_limit(&server.url(), |statements| server.sql(statements));
    }
}

fn check_limit(url: &str, sql: impl Fn(&str) -> String) {
    // Before keymill connects for the first time: the schema is made under it too.
    sql("SET GLOBAL sql_select_limit = 5, GLOBAL time_zone = '+05:00'");
    let deployment = Deployment::on(url);
    let server = watchful(&deployment, "d0").start();
    put(&server, "tickets", TICKETS);
    let in_use: Vec<String> = (0..2_000).map(ticket).collect();
    import_used(&deployment, &in_use);
    let mut received = Received::default();
    for _ in 0..20 {
        received.add(&take(&server, "tickets", 50));
    }
    let both: Vec<_> = in_use.iter().filter(|key| received.contains(key)).collect();
    assert!(both.is_empty(), "{} keys in use were handed out: {both:?}", both.len());
    // Nor does it hide a keyspace, or the way back to one after a new start.
    let names: Vec<String> = (0..8).map(|number| format!("more-{number}")).collect();
    for name in &names {
        put(&server, name, "{}");
    }
    drop(server);
    let again = quiet(&deployment, "d0").start();
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
    let Some((old, new)) = unless_missing(pair()) else { return };
    old.sql(&format!("CREATE DATABASE keymill; {make_user}"));
    let both = format!("mysql://{user}@127.0.0.1:{},127.0.0.1:{}/keymill", old.port(), new.port());
    let deployment = Deployment::on(both);
    let fleet = Fleet::start(["d0", "d1"].map(|name| watchful(&deployment, name)));
    put(&fleet.hold(0), "tickets", TICKETS);
    // Every tenth, further than the load gets.
    let in_use: Vec<String> = (0..500_000).step_by(10).map(ticket).collect();
    import_used(&deployment, &in_use);

    // The keys in use are to last.
    let rest = Duration::from_millis(2);
    let callers = [0, 1].map(|server| Caller::http("tickets").of(server).takes(20).rests(rest));
    let received = Load::of(callers).run(&fleet, |run| {
        await_more(run, "many leases were granted", 5_000);
        switch_over(&old, &new);
        let promoted = Instant::now();
        // More than they can have had at hand.
        await_more(run, "they have moved over", 2_000);
        let waited = promoted.elapsed();
        println!("keys went on {waited:?} after the new server took writes");
        assert!(waited < RESUMED_MAX, "it took {waited:?}");
        await_more(run, "they stay there", 5_000);
    });
    received.check_unique("over the switchover");
    received.check_answered(&["503"]);
    assert!(!received.refusals.contains_key("503 store_rolled_back"), "nothing was lost");
    for server in fleet.each() {
        eventually("all is well", || is_well(&server));
        assert!(!server.log().contains("rolled back to an earlier state"), "{}", server.log());
    }
    let both: Vec<_> = in_use.iter().filter(|key| received.contains(key)).collect();
    assert!(both.is_empty(), "{} keys in use were handed out: {both:?}", both.len());
    let last = received.keys().max().unwrap();
    assert!(last < ticket(500_000), "the load went beyond the keys in use, to {last}");
    let leases = |server: &MariaDb| -> u64 {
        server.sql("SELECT COUNT(*) FROM keymill.leases").trim().parse().unwrap()
    };
    assert!(leases(&new) > leases(&old), "leases were granted on the new server");
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

/// The key of an ordinal.
fn ticket(ordinal: u64) -> String {
    format!("{ordinal:09}")
}
