//! PostgreSQL behind PgBouncer: server connections that instances share, and a server behind it that
//! changes.

use keymill_proof::Server;
use keymill_proof::backend::{Backend, PgBouncer, PoolMode, Postgres, skip};

use super::super::{Received, eventually, put, take};
use super::postgres::under_load;
use super::{fails, has_problem, is_ready, keymill, succeeds, watchful};

const SMALL: &str = r#"{"lease_size_min": 200, "lease_size_max": 200}"#;
const POOL: &str = r#"{"kind": "pooled", "audit": "key"}"#;

#[test]
fn instances_share_its_servers_in_session_mode() {
    share(PoolMode::Session);
}

#[test]
fn instances_share_its_servers_in_transaction_mode() {
    share(PoolMode::Transaction);
}

#[test]
fn a_failover_behind_it_loses_nothing_in_session_mode() {
    fail_over(PoolMode::Session);
}

#[test]
fn a_failover_behind_it_loses_nothing_in_transaction_mode() {
    fail_over(PoolMode::Transaction);
}

#[test]
fn statement_mode_is_refused() {
    let postgres = match Postgres::start() {
        Ok(postgres) => postgres,
        Err(missing) => return skip(&missing),
    };
    let bouncer = match PgBouncer::start(PoolMode::Statement, postgres.port()) {
        Ok(bouncer) => bouncer,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let refused = fails(&keymill(&bouncer.url(), folder.path(), &["take"]));
    assert!(refused.contains("statement pooling mode"), "{refused}");
}

fn share(mode: PoolMode) {
    let postgres = match Postgres::start() {
        Ok(postgres) => postgres,
        Err(missing) => return skip(&missing),
    };
    let bouncer = match PgBouncer::start(mode, postgres.port()) {
        Ok(bouncer) => bouncer,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    // At once: one of them makes the schema.
    let [mut first, mut second] = std::thread::scope(|scope| {
        let start = |name| {
            let spec = watchful(&bouncer.url(), folder.path(), name);
            scope.spawn(move || Server::start(&spec))
        };
        ["d0", "d1"].map(start).map(|server| server.join().unwrap())
    });
    put(&first, "links", SMALL);
    put(&first, "tickets", POOL);
    // Written in bulk.
    let data_dir = folder.path().join("filler");
    let fill = ["pool", "fill", "tickets", "--up-to", "20000"];
    succeeds(&keymill(&bouncer.url(), &data_dir, &fill));
    let (mut links, mut tickets) = (Received::default(), Received::default());
    for _ in 0..20 {
        for server in [&first, &second] {
            links.add(&take(server, "links", 100));
            tickets.add(&take(server, "tickets", 100));
        }
    }
    // A clean stop gives leases and claims back, and whoever starts next is granted them.
    assert!(first.stop().success(), "{}", first.log());
    let again = Server::start(&watchful(&bouncer.url(), folder.path(), "d0"));
    for server in [&again, &second] {
        links.add(&take(server, "links", 100));
        tickets.add(&take(server, "tickets", 100));
        eventually("nothing is wrong", || is_ready(server));
    }
    assert!(second.stop().success(), "{}", second.log());
    let check = succeeds(&keymill(&bouncer.url(), &data_dir, &["store", "check"]));
    assert!(!check.contains("UNSAFE"), "{check}");
    println!("{mode:?}: {} and {} keys, none twice", links.keys.len(), tickets.keys.len());
}

fn fail_over(mode: PoolMode) {
    let mut primary = match Postgres::start() {
        Ok(primary) => primary,
        Err(missing) => return skip(&missing),
    };
    let standby = primary.standby("standby").unwrap();
    primary.set("synchronous_standby_names", "standby");
    let bouncer = match PgBouncer::start(mode, primary.port()) {
        Ok(bouncer) => bouncer,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let start = |name| Server::start(&watchful(&bouncer.url(), folder.path(), name));
    let servers = ["d0", "d1"].map(start);
    put(&servers[0], "links", SMALL);
    let received = under_load(&servers, "links", |count| {
        eventually("many leases were granted", || count() > 20_000);
        // For a while there is only a standby behind it, which has all the data and takes no writes.
        primary.kill();
        bouncer.lead_to(standby.port());
        for server in &servers {
            eventually("it says so", || has_problem(server, "store_unavailable"));
        }
        standby.promote();
        standby.set("synchronous_standby_names", "");
        let before = count();
        eventually("they have moved over", || count() > before + 20_000);
    });
    for server in &servers {
        eventually("nothing is wrong", || is_ready(server));
        assert!(!server.log().contains("store_rolled_back"), "{}", server.log());
    }
    println!("{mode:?}: {} keys over the failover, none twice", received.keys.len());
}
