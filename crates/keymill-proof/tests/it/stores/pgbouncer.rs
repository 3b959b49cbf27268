//! PostgreSQL behind PgBouncer: server connections that instances share, and a server behind it that
//! changes.

use keymill_proof::backend::{Backend, Missing, PgBouncer, PoolMode, Postgres, unless_missing};
use keymill_proof::{Deployment, Fleet, Received};

use super::super::{eventually, has_problem, is_well, put, take, watchful};
use super::{await_more, load};

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
    let Some((_postgres, bouncer)) = unless_missing(pair(PoolMode::Statement)) else { return };
    let refused = Deployment::on(bouncer.url()).run_in_vain("d0", &["take"]);
    assert!(refused.contains("statement pooling mode"), "{refused}");
}

/// A PostgreSQL and a PgBouncer in front of it.
fn pair(mode: PoolMode) -> Result<(Postgres, PgBouncer), Missing> {
    let postgres = Postgres::start()?;
    let bouncer = PgBouncer::start(mode, postgres.port())?;
    Ok((postgres, bouncer))
}

fn share(mode: PoolMode) {
    let Some((_postgres, bouncer)) = unless_missing(pair(mode)) else { return };
    let deployment = Deployment::on(bouncer.url());
    // At once: one of them makes the schema.
    let fleet = Fleet::start_at_once(["d0", "d1"].map(|name| watchful(&deployment, name)));
    put(&fleet.hold(0), "links", SMALL);
    put(&fleet.hold(0), "tickets", POOL);
    // Written in bulk.
    deployment.run("filler", &["pool", "fill", "tickets", "--up-to", "20000"]);
    let (mut links, mut tickets) = (Received::default(), Received::default());
    let mut take_of_each = || {
        for server in fleet.each() {
            links.add(&take(&server, "links", 100));
            tickets.add(&take(&server, "tickets", 100));
        }
    };
    (0..20).for_each(|_| take_of_each());
    // A clean stop gives leases and claims back, and whoever starts next is granted them.
    fleet.hold(0).stop();
    fleet.hold(0).start();
    take_of_each();
    for server in fleet.each() {
        eventually("nothing is wrong", || is_well(&server));
    }
    fleet.hold(1).stop();
    let check = deployment.run("filler", &["store", "check"]);
    assert!(!check.contains("UNSAFE"), "{check}");
    println!("{mode:?}: {} and {} keys, none twice", links.len(), tickets.len());
}

fn fail_over(mode: PoolMode) {
    let Some((mut primary, bouncer)) = unless_missing(pair(mode)) else { return };
    let standby = primary.standby("standby").unwrap();
    primary.set("synchronous_standby_names", "standby");
    let deployment = Deployment::on(bouncer.url());
    let fleet = Fleet::start(["d0", "d1"].map(|name| watchful(&deployment, name)));
    put(&fleet.hold(0), "links", SMALL);
    let received = load(&fleet, "links", 50).run(&fleet, |run| {
        await_more(run, "many leases were granted", 20_000);
        // For a while there is only a standby behind it, which has all the data and takes no writes.
        primary.kill();
        bouncer.lead_to(standby.port());
        for server in fleet.each() {
            eventually("it says so", || has_problem(&server, "store_unavailable"));
        }
        standby.promote();
        standby.set("synchronous_standby_names", "");
        await_more(run, "they have moved over", 20_000);
    });
    for server in fleet.each() {
        eventually("nothing is wrong", || is_well(&server));
        assert!(!server.log().contains("store_rolled_back"), "{}", server.log());
    }
    received.check_unique(&format!("{mode:?}, over the failover"));
    received.check_answered(&["503"]);
}
