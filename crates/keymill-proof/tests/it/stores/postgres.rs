//! PostgreSQL's failovers: one that loses nothing, one that loses the last leases, and a switchover
//! during which both servers answer. And servers with defaults that nobody would choose.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use keymill_proof::backend::{Backend, Postgres, skip};
use keymill_proof::proxy::{Fault, Proxy};
use keymill_proof::{Client, Server};

use super::super::{Received, eventually, is_problem, put, take};
use super::redis::advice;
use super::{fails, has_problem, is_ready, keymill, succeeds, watchful};

const SMALL: &str = r#"{"lease_size_min": 200, "lease_size_max": 200}"#;

#[test]
fn instances_follow_a_failover_to_a_synchronous_standby_and_refuse_the_old_primary() {
    let mut primary = match Postgres::start() {
        Ok(primary) => primary,
        Err(missing) => return skip(&missing),
    };
    let standby = primary.standby("standby").unwrap();
    primary.set("synchronous_standby_names", "standby");
    let both = format!(
        "postgres://keymill@127.0.0.1:{},127.0.0.1:{}/keymill",
        primary.port(),
        standby.port()
    );
    let folder = tempfile::tempdir().unwrap();
    let start = |name| Server::start(&watchful(&both, folder.path(), name));
    let mut servers = ["d0", "d1", "d2"].map(start);
    put(&servers[0], "links", SMALL);
    let mut received = under_load(&servers, "links", |count| {
        eventually("many leases were granted", || count() > 20_000);
        primary.kill();
        standby.promote();
        // It has no standby of its own yet.
        standby.set("synchronous_standby_names", "");
        let before = count();
        eventually("they have moved over", || count() > before + 20_000);
    });
    println!("{} keys over the failover, none twice", received.keys.len());

    // The old primary comes back, and believes that it still is one.
    primary.start();
    primary.set("synchronous_standby_names", "");
    servers[0].kill();
    let again = Server::start(&watchful(&both, folder.path(), "d0"));
    for server in [&again, &servers[1], &servers[2]] {
        eventually("keys come from the new primary", || is_ready(server));
        for _ in 0..20 {
            received.add(&take(server, "links", 50));
        }
    }
    // With nothing but the old one to go to, nothing is granted.
    servers[1].kill();
    let only_old = Server::start(&watchful(&primary.url(), folder.path(), "d1"));
    is_problem(&take(&only_old, "links", 1), 503, "store_rolled_back");
    eventually("it says so", || has_problem(&only_old, "store_rolled_back"));
    only_old.log_with("timeline");
}

/// Takes from all servers at once until `during` is over, which is told how many keys there are so far;
/// none of them comes twice.
pub(super) fn under_load(
    servers: &[Server],
    space: &str,
    during: impl FnOnce(&dyn Fn() -> usize),
) -> Received {
    let received = Mutex::new(Received::default());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetWhenDropped(&done);
        for address in servers.iter().map(Server::address) {
            let (received, done) = (&received, &done);
            scope.spawn(move || {
                let mut client = Client::new(address);
                while !done.load(Ordering::SeqCst) {
                    let answer = client.take(space, 50).unwrap();
                    if answer.status == 200 {
                        received.lock().unwrap().add(&answer);
                    }
                }
            });
        }
        during(&|| received.lock().unwrap().keys.len());
    });
    received.into_inner().unwrap()
}

/// Ends the callers, also when the test fails.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_failover_that_loses_leases_is_warned_of_noticed_and_reopened() {
    let mut primary = match Postgres::start() {
        Ok(primary) => primary,
        Err(missing) => return skip(&missing),
    };
    // The standby follows through a link that can stall.
    let link = Proxy::start(primary.port());
    let standby = primary.standby_through(link.port(), "standby").unwrap();
    let both = format!(
        "postgres://keymill@127.0.0.1:{},127.0.0.1:{}/keymill",
        primary.port(),
        standby.port()
    );
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("d0");
    let warned = fails(&keymill(&both, &data_dir, &["store", "check"]));
    assert!(warned.contains("none synchronous") && warned.contains("UNSAFE"), "{warned}");
    let refused = fails(&keymill(&both, &data_dir, &["take"]));
    assert!(refused.contains("synchronous_standby_names"), "{refused}");

    let start = |name| {
        let spec = watchful(&both, folder.path(), name);
        Server::start(&spec.arg("--allow-unsafe-store"))
    };
    let servers = ["d0", "d1", "d2"].map(start);
    put(&servers[0], "links", SMALL);
    let mut received = Received::default();
    let work = |received: &mut Received| {
        for turn in 0..60 {
            received.add(&take(&servers[turn % 3], "links", 50));
        }
    };
    work(&mut received);
    eventually("the standby has all that", || {
        let position = "SELECT pg_current_wal_flush_lsn() <= replay_lsn FROM pg_stat_replication";
        primary.sql("postgres", position) == "t"
    });
    link.set(Fault::Stall);
    work(&mut received);
    primary.kill();
    link.cut();
    standby.promote();

    for server in &servers {
        eventually("it is noticed", || has_problem(server, "store_rolled_back"));
        is_problem(&received.drain(server.address(), "links", 10), 503, "store_rolled_back");
    }
    let to = servers.iter().map(advice).max().unwrap().to_string();
    succeeds(&keymill(&both, &data_dir, &["space", "advance", "links", "--to", &to]));
    for server in &servers {
        eventually("keys come again", || {
            let answer = take(server, "links", 50);
            answer.status == 200 && received.add(&answer) == 50
        });
    }
    work(&mut received);
    println!("{} keys, none twice", received.keys.len());
}

#[test]
fn instances_follow_a_switchover_while_the_old_primary_still_answers() {
    let mut old = match Postgres::start() {
        Ok(old) => old,
        Err(missing) => return skip(&missing),
    };
    let new = old.standby("standby").unwrap();
    old.set("synchronous_standby_names", "standby");
    let both =
        format!("postgres://keymill@127.0.0.1:{},127.0.0.1:{}/keymill", old.port(), new.port());
    let folder = tempfile::tempdir().unwrap();
    let start = |name| Server::start(&watchful(&both, folder.path(), name));
    let servers = ["d0", "d1", "d2"].map(start);
    put(
        &servers[0],
        "tickets",
        r#"{"kind":"sequential","alphabet":"decimal","length":7,"lease_size_min":200,"lease_size_max":200}"#,
    );
    let used: Vec<String> = (0..400_000).step_by(9).map(|number| format!("{number:07}")).collect();
    let file = folder.path().join("used.txt");
    std::fs::write(&file, used.join("\n")).unwrap();
    let import = ["space", "import-used", "tickets", file.to_str().unwrap()];
    succeeds(&keymill(&both, &folder.path().join("importer"), &import));

    let received = under_load(&servers, "tickets", |count| {
        eventually("many leases were granted", || count() > 20_000);
        new.promote();
        // It has no standby of its own. The old one still is a primary for those connected to it, but
        // waits in vain for its standby to confirm a commit.
        new.set("synchronous_standby_names", "");
        let before = count();
        eventually("they have moved over", || count() > before + 10_000);
        old.stop();
        let before = count();
        eventually("they go on without the old one", || count() > before + 10_000);
    });
    for server in &servers {
        eventually("nothing is wrong in the end", || is_ready(server));
        assert!(!server.log().contains("store_rolled_back"), "{}", server.log());
    }
    let highest = received.keys.iter().max().unwrap();
    let passed = used.iter().filter(|key| *key < highest).count();
    let handed_out: Vec<&String> = used.iter().filter(|key| received.keys.contains(*key)).collect();
    println!("{} keys over the switchover, {passed} in use passed over", received.keys.len());
    assert!(passed > 1_000, "no key in use was in the way of {highest}");
    assert!(handed_out.is_empty(), "keys in use that were handed out: {handed_out:?}");
}

#[test]
fn the_defaults_of_a_server_do_not_matter() {
    let postgres = match Postgres::start() {
        Ok(postgres) => postgres,
        Err(missing) => return skip(&missing),
    };
    for default in [
        "default_transaction_read_only = on",
        "default_transaction_isolation = 'serializable'",
        "search_path = nowhere",
        "statement_timeout = 1",
        "lock_timeout = 1",
        "idle_in_transaction_session_timeout = 1",
        "row_security = on",
        "client_min_messages = error",
        "enable_indexscan = off",
    ] {
        let set = format!("ALTER ROLE keymill IN DATABASE keymill SET {default}");
        postgres.sql("postgres", &set);
    }
    let folder = tempfile::tempdir().unwrap();
    let start = |name| Server::start(&watchful(&postgres.url(), folder.path(), name));
    let servers = ["d0", "d1"].map(start);
    eventually("a keyspace is made", || {
        let headers = [("content-type", "application/json")];
        let mut client = Client::new(servers[0].address());
        let answer = client.request("PUT", "/v1/spaces/links", &headers, SMALL.as_bytes());
        [200, 201].contains(&answer.unwrap().status)
    });
    let received = under_load(&servers, "links", |count| {
        eventually("both are granted leases", || count() > 20_000);
    });
    println!("{} keys, none twice", received.keys.len());
    for server in &servers {
        eventually("nothing is wrong", || is_ready(server));
    }
}

#[test]
fn rows_that_a_policy_hides_are_not_taken_for_missing_ones() {
    let postgres = match Postgres::start() {
        Ok(postgres) => postgres,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("d0");
    succeeds(&keymill(&postgres.url(), &data_dir, &["take"]));
    postgres.sql("keymill", "CREATE ROLE app LOGIN");
    postgres.sql("keymill", "GRANT USAGE ON SCHEMA keymill TO app");
    postgres.sql("keymill", "GRANT ALL ON ALL TABLES IN SCHEMA keymill TO app");
    let app = postgres.url().replace("keymill@", "app@");
    succeeds(&keymill(&app, &data_dir, &["take"]));
    // Aliases are rows of `names`: whoever cannot see them would hand out their keys.
    postgres.sql("keymill", "ALTER TABLE keymill.names ENABLE ROW LEVEL SECURITY");
    postgres
        .sql("keymill", "CREATE POLICY hidden ON keymill.names USING (false) WITH CHECK (true)");
    let refused = fails(&keymill(&app, &data_dir, &["take"]));
    assert!(refused.contains("row-level security policy"), "{refused}");
}
