//! Switchovers of Redis: a replica is promoted, and the master that was becomes its replica. The
//! address that instances know leads to the new master; connections that are open stay where they are.

use std::time::{Duration, Instant};

use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{
    Confirm, Evidence, Floor, LeaseAsk, Mark, NameBatch, NamePurpose, NewName, NewSpace, Opening,
    Pulse, StoreError,
};
use keymill_engine::space::{Definition, Tuning};
use keymill_proof::backend::{Backend, Missing, Redis, unless_missing};
use keymill_proof::proxy::Proxy;
use keymill_proof::{Deployment, Fleet};

use super::super::super::{eventually, is_well, put, watchful};
use super::super::{await_more, import_used, load};

#[test]
fn instances_follow_a_switchover_to_a_promoted_replica() {
    let Some((first, second)) = unless_missing(pair()) else { return };
    let address = Proxy::start(first.port());
    let deployment = Deployment::on(format!("redis://127.0.0.1:{}/0", address.port()));
    let fleet = Fleet::start(["d0", "d1", "d2"].map(|name| watchful(&deployment, name)));
    put(
        &fleet.hold(0),
        "tickets",
        r#"{"kind":"sequential","alphabet":"decimal","length":8,"lease_size_min":50,"lease_size_max":50}"#,
    );
    // Far beyond what is handed out here, each tenth key is in use elsewhere.
    let used: Vec<String> = (0..50_000).map(|number| format!("{:08}", number * 10)).collect();
    import_used(&deployment, &used);

    let mut paused = Duration::ZERO;
    let received = load(&fleet, "tickets", 20).run(&fleet, |run| {
        await_more(run, "many leases were granted", 5_000);
        assert_eq!(second.command("REPLICAOF NO ONE"), "+OK");
        address.lead_to(second.port());
        // From here on, what is open to the first is open to a replica.
        assert_eq!(first.command(&follow(&second)), "+OK");
        let begin = Instant::now();
        // More than was held in memory.
        await_more(run, "keys come from the new master", 2_000);
        paused = begin.elapsed();
        await_more(run, "many leases were granted there", 8_000);
    });
    received.check_unique(&format!("a switchover that took {paused:?}"));
    received.check_answered(&["503"]);
    assert!(paused < Duration::from_secs(10), "they took {paused:?} to find the new master");
    let handed_out: Vec<&String> = used.iter().filter(|key| received.contains(key)).collect();
    assert!(handed_out.is_empty(), "in use elsewhere, and handed out: {handed_out:?}");
    assert!(received.len() < 450_000, "the keys in use elsewhere were left behind");
    for server in fleet.each() {
        eventually("all is well again", || is_well(&server));
        assert!(!server.log().contains("store_rolled_back"), "{}", server.log());
    }
    assert!(first.command("INFO replication").contains("role:slave"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_word_of_a_master_that_was_replaced_does_not_count() {
    let Some((first, second)) = unless_missing(pair()) else { return };
    let address = Proxy::start(first.port());
    // Replicas confirm nothing here: the first server stays behind for good.
    let url = format!("redis://127.0.0.1:{}/0?replicas=0", address.port());
    let open =
        async || keymill_engine::internals::store::open(&url, Opening::default()).await.unwrap();
    let olds = [open().await, open().await, open().await, open().await, open().await];
    let nothing_seen =
        Floor { store: olds[0].admin.identity().await.unwrap(), mark: Mark::default() };
    olds[0].spaces.create(&links(), &nothing_seen).await.unwrap();
    eventually("the replica has it", || second.command("EXISTS keymill:{links}") == ":1");
    for old in &olds {
        // Several connections each.
        let looks = tokio::join!(
            old.spaces.space("links"),
            old.spaces.space("links"),
            old.spaces.space("links")
        );
        assert!(looks.0.is_ok() && looks.1.is_ok() && looks.2.is_ok());
    }

    assert_eq!(second.command("REPLICAOF NO ONE"), "+OK");
    address.lead_to(second.port());
    let new = open().await;
    for (key, ordinal) in [("k5", Some(5)), ("plain", None)] {
        let batch = NameBatch {
            space: "links".to_owned(),
            purpose: NamePurpose::Used,
            owner: String::new(),
            names: vec![NewName { key: key.to_owned(), ordinal }],
            generations: 1,
        };
        new.names.add_names(&batch, &nothing_seen).await.unwrap();
    }
    let ask = ask();
    let grant = new.leases.lease(&ask, &nothing_seen).await.unwrap();
    let (holder, end) = (ask.instance.id.clone(), grant.ordinals.end);
    let what = Confirm {
        space: "links".to_owned(),
        reached: grant.mark,
        evidence: Evidence::Lease { lease: grant.lease, holder, end },
        skips_in: grant.ordinals.clone(),
    };
    // The first still believes that it is the master; then it follows another, which is not there.
    for (role, olds) in [("master", &olds[..2]), ("slave", &olds[2..4])] {
        if role == "slave" {
            assert_eq!(first.command("REPLICAOF 127.0.0.1 1"), "+OK");
        }
        assert!(first.command("INFO replication").contains(&format!("role:{role}")));
        let confirmed = olds[0].snapshots.confirm(&what).await.unwrap();
        assert!(confirmed.on_record, "{role}: {confirmed:?}");
        assert_eq!(confirmed.skips, [5], "{role}");
        let names =
            olds[1].snapshots.names_without_ordinal("links", grant.mark, None, 10).await.unwrap();
        assert_eq!(names, ["plain"], "{role}");
    }
    let floor = Floor { mark: grant.mark, ..nothing_seen };
    let next = olds[4].leases.lease(&ask, &floor).await.unwrap();
    assert_eq!(next.ordinals, 10..20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_reports_nothing_that_no_replica_has() {
    let Some((first, second)) = unless_missing(pair()) else { return };
    let store =
        keymill_engine::internals::store::open(&first.url(), Opening::default()).await.unwrap();
    let floor = Floor { store: store.admin.identity().await.unwrap(), mark: Mark::default() };
    // A busy machine may keep the replica from answering in time.
    let mut made = store.spaces.create(&links(), &floor).await;
    for _ in 0..5 {
        if !matches!(made, Err(StoreError::InDoubt(_))) {
            break;
        }
        made = store.spaces.create(&links(), &floor).await;
    }
    made.unwrap();
    let ask = ask();
    let pulse = Pulse {
        instance: ask.instance.clone(),
        address: None,
        stopping: false,
        last_leases: Vec::new(),
        serves: Vec::new(),
    };
    let beat = store.instances.heartbeat(&pulse).await.unwrap();
    assert_eq!(beat.marks.iter().map(|(_, mark)| mark.next).collect::<Vec<_>>(), [0]);

    assert_eq!(second.command("REPLICAOF NO ONE"), "+OK");
    eventually("nobody follows", || {
        first.command("INFO replication").contains("connected_slaves:0")
    });
    let burned = store.leases.lease(&ask, &floor).await;
    assert!(matches!(burned, Err(StoreError::InDoubt(_))), "{burned:?}");
    let unknown = store.instances.heartbeat(&pulse).await;
    assert!(matches!(unknown, Err(StoreError::Unavailable(_))), "{unknown:?}");

    assert_eq!(second.command(&follow(&first)), "+OK");
    eventually("the replica follows again", || is_followed(&first, &second));
    let beat = store.instances.heartbeat(&pulse).await.unwrap();
    assert_eq!(beat.marks.iter().map(|(_, mark)| mark.next).collect::<Vec<_>>(), [10]);
}

/// A master and its replica, both safe, and quick to tell each other all they have.
fn pair() -> Result<(Redis, Redis), Missing> {
    let safe = ["--appendonly", "yes", "--appendfsync", "always"];
    let settings = [&safe[..], &["--repl-diskless-sync-delay", "0"]].concat();
    let master = Redis::with(&settings)?;
    let port = master.port().to_string();
    let following = ["--replicaof", "127.0.0.1", port.as_str()];
    let replica = Redis::with(&[&settings[..], &following[..]].concat())?;
    eventually("the replica follows", || is_followed(&master, &replica));
    Ok((master, replica))
}

fn is_followed(master: &Redis, replica: &Redis) -> bool {
    master.command("INFO replication").contains("state=online")
        && replica.command("INFO replication").contains("master_link_status:up")
}

/// The command that makes a server follow another.
fn follow(master: &Redis) -> String {
    format!("REPLICAOF 127.0.0.1 {}", master.port())
}

fn links() -> NewSpace {
    NewSpace {
        name: "links".to_owned(),
        definition: Definition::default(),
        tuning: Tuning::default(),
        fingerprint: None,
        capacity: 1_000,
        start: 0,
    }
}

fn ask() -> LeaseAsk {
    LeaseAsk {
        space: "links".to_owned(),
        instance: Instance::this_process(),
        size: 10,
        share: 1,
        last_lease: None,
        spent: Vec::new(),
    }
}
