//! PostgreSQL's failovers: one that loses nothing, one that loses the last leases, and a switchover
//! during which both servers answer. And servers with defaults that nobody would choose.

use keymill_proof::backend::{Backend, Missing, Postgres, unless_missing};
use keymill_proof::proxy::{Fault, Proxy};
use keymill_proof::{Client, Deployment, Fleet, Received, ServerSpec};

use super::super::{
    advice, eventually, gives, has_problem, is_problem, is_well, put, take, watchful,
};
use super::{await_more, import_used, load};

const SMALL: &str = r#"{"lease_size_min": 200, "lease_size_max": 200}"#;

#[test]
fn instances_follow_a_failover_to_a_synchronous_standby_and_refuse_the_old_primary() {
    let Some((mut primary, standby)) = unless_missing(synchronous_pair()) else { return };
    let deployment = Deployment::on(both(&primary, &standby));
    let fleet = Fleet::start(["d0", "d1", "d2"].map(|name| watchful(&deployment, name)));
    put(&fleet.hold(0), "links", SMALL);
    let mut received = load(&fleet, "links", 50).run(&fleet, |run| {
        await_more(run, "many leases were granted", 20_000);
        primary.kill();
        standby.promote();
        // It has no standby of its own yet.
        standby.set("synchronous_standby_names", "");
        await_more(run, "they have moved over", 20_000);
    });
    received.check_unique("over the failover");
    received.check_answered(&["503"]);

    // The old primary comes back, and believes that it still is one.
    primary.start();
    primary.set("synchronous_standby_names", "");
    fleet.hold(0).kill();
    fleet.hold(0).start();
    for server in fleet.each() {
        eventually("keys come from the new primary", || is_well(&server));
        for _ in 0..20 {
            received.add(&take(&server, "links", 50));
        }
    }
    // With nothing but the old one to go to, nothing is granted.
    fleet.hold(1).kill();
    let only_old = ServerSpec::keymill(&primary.url(), deployment.folder(), "d1");
    let only_old = only_old.heartbeat(0.2).start();
    is_problem(&take(&only_old, "links", 1), 503, "store_rolled_back");
    eventually("it says so", || has_problem(&only_old, "store_rolled_back"));
    only_old.log_with("timeline");
}

/// A primary, and a standby that confirms what it commits.
fn synchronous_pair() -> Result<(Postgres, Postgres), Missing> {
    let primary = Postgres::start()?;
    let standby = primary.standby("standby")?;
    primary.set("synchronous_standby_names", "standby");
    Ok((primary, standby))
}

/// The URL of two servers, one of which is the primary.
fn both(one: &Postgres, other: &Postgres) -> String {
    let (one, other) = (one.port(), other.port());
    format!("postgres://keymill@127.0.0.1:{one},127.0.0.1:{other}/keymill")
}

#[test]
fn a_failover_that_loses_leases_is_warned_of_noticed_and_reopened() {
    let Some(mut primary) = unless_missing(Postgres::start()) else { return };
    // The standby follows through a link that can stall.
    let link = Proxy::start(primary.port());
    let standby = primary.standby_through(link.port(), "standby").unwrap();
    let deployment = Deployment::on(both(&primary, &standby));
    let warned = deployment.run_in_vain("d0", &["store", "check"]);
    assert!(warned.contains("none synchronous") && warned.contains("UNSAFE"), "{warned}");
    let refused = deployment.run_in_vain("d0", &["take"]);
    assert!(refused.contains("synchronous_standby_names"), "{refused}");

    let start = |name| watchful(&deployment, name).arg("--allow-unsafe-store").start();
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
    deployment.run("d0", &["space", "advance", "links", "--to", &to]);
    for server in &servers {
        eventually("keys come again", || gives(&mut received, server, "links", 50));
    }
    work(&mut received);
    println!("{} keys, none twice", received.len());
}

#[test]
fn instances_follow_a_switchover_while_the_old_primary_still_answers() {
    let Some((mut old, new)) = unless_missing(synchronous_pair()) else { return };
    let deployment = Deployment::on(both(&old, &new));
    let fleet = Fleet::start(["d0", "d1", "d2"].map(|name| watchful(&deployment, name)));
    put(
        &fleet.hold(0),
        "tickets",
        r#"{"kind":"sequential","alphabet":"decimal","length":7,"lease_size_min":200,"lease_size_max":200}"#,
    );
    let used: Vec<String> = (0..400_000).step_by(9).map(|number| format!("{number:07}")).collect();
    import_used(&deployment, &used);

    let received = load(&fleet, "tickets", 50).run(&fleet, |run| {
        await_more(run, "many leases were granted", 20_000);
        new.promote();
        // It has no standby of its own. The old one still is a primary for those connected to it, but
        // waits in vain for its standby to confirm a commit.
        new.set("synchronous_standby_names", "");
        await_more(run, "they have moved over", 10_000);
        old.stop();
        await_more(run, "they go on without the old one", 10_000);
    });
    for server in fleet.each() {
        eventually("nothing is wrong in the end", || is_well(&server));
        assert!(!server.log().contains("store_rolled_back"), "{}", server.log());
    }
    received.check_unique("over the switchover");
    received.check_answered(&["503"]);
    let highest = received.keys().max().unwrap();
    let passed = used.iter().filter(|key| **key < highest).count();
    let handed_out: Vec<&String> = used.iter().filter(|key| received.contains(key)).collect();
    println!("{passed} keys in use passed over");
    assert!(passed > 1_000, "no key in use was in the way of {highest}");
    assert!(handed_out.is_empty(), "keys in use that were handed out: {handed_out:?}");
}

#[test]
fn the_defaults_of_a_server_do_not_matter() {
    let Some(postgres) = unless_missing(Postgres::start()) else { return };
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
    let deployment = Deployment::on(postgres.url());
    let fleet = Fleet::start(["d0", "d1"].map(|name| watchful(&deployment, name)));
    eventually("a keyspace is made", || {
        let made = Client::new(fleet.hold(0).address()).put_space("links", SMALL);
        [200, 201].contains(&made.unwrap().status)
    });
    let received = load(&fleet, "links", 50).run(&fleet, |run| {
        await_more(run, "both are granted leases", 20_000);
    });
    received.check_unique("with odd defaults");
    received.check_answered(&["503"]);
    for server in fleet.each() {
        eventually("nothing is wrong", || is_well(&server));
    }
}

#[test]
fn rows_that_a_policy_hides_are_not_taken_for_missing_ones() {
    let Some(postgres) = unless_missing(Postgres::start()) else { return };
    let deployment = Deployment::on(postgres.url());
    deployment.run("d0", &["take"]);
    postgres.sql("keymill", "CREATE ROLE app LOGIN");
    postgres.sql("keymill", "GRANT USAGE ON SCHEMA keymill TO app");
    postgres.sql("keymill", "GRANT ALL ON ALL TABLES IN SCHEMA keymill TO app");
    let app = Deployment::on(postgres.url().replace("keymill@", "app@"));
    app.run("d0", &["take"]);
    // Aliases are rows of `names`: whoever cannot see them would hand out their keys.
    postgres.sql("keymill", "ALTER TABLE keymill.names ENABLE ROW LEVEL SECURITY");
    postgres
        .sql("keymill", "CREATE POLICY hidden ON keymill.names USING (false) WITH CHECK (true)");
    let refused = app.run_in_vain("d0", &["take"]);
    assert!(refused.contains("row-level security policy"), "{refused}");
}
