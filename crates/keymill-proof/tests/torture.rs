//! Real servers on one store, killed, paused and stopped under load: no key comes twice. And
//! the same harness on servers with a known fault: it does, and is seen.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use keymill_proof::backend::{Kind, unless_missing};
use keymill_proof::torture::Report;
use keymill_proof::{Deed, Deployment, Harm, ServerSpec, Torture, binary};

/// A run needs the machine for itself.
static MACHINE: Mutex<()> = Mutex::new(());

#[test]
fn no_key_comes_twice_from_servers_that_are_killed_paused_and_stopped() {
    let deployment = Deployment::sqlite();
    let torture = Torture::new(servers(&deployment));
    check("SQLite", deployment, &torture, &["503 no_keys_ready"]);
}

#[test]
fn no_key_comes_twice_while_postgres_is_killed_too() {
    torture_with_its_store(Kind::Postgres);
}

#[test]
fn no_key_comes_twice_while_mysql_is_killed_too() {
    torture_with_its_store(Kind::MariaDb);
}

#[test]
fn no_key_comes_twice_while_mysql9_is_killed_too() {
    torture_with_its_store(Kind::Mysql);
}

#[test]
fn no_key_comes_twice_while_redis_is_killed_too() {
    torture_with_its_store(Kind::Redis);
}

#[test]
fn no_key_comes_twice_while_etcd_is_killed_too() {
    torture_with_its_store(Kind::Etcd);
}

fn torture_with_its_store(kind: Kind) {
    let Some(backend) = unless_missing(kind.start()) else { return };
    let deployment = Deployment::on(backend.url());
    let mut torture = Torture::new(servers(&deployment));
    torture.keys = 1_000_000;
    torture.plan.harms = vec![
        Harm::new(Deed::Kill, 8, 150..300, 0..100),
        Harm::new(Deed::Pause, 8, 150..300, 50..400),
        Harm::new(Deed::Stop, 3, 500..900, 0..50),
        Harm::new(Deed::KillStore, 3, 1_500..3_000, 200..1_200),
    ];
    torture.plan.store = Some(Mutex::new(backend));
    let refusals = ["503 no_keys_ready", "503 store_unavailable"];
    check(&format!("{kind:?}"), deployment, &torture, &refusals);
}

/// Three of them, with frequent heartbeats, so that those are cut off by kills as leases are.
fn servers(deployment: &Deployment) -> Vec<ServerSpec> {
    let spec = |number| deployment.server(&format!("server-{number}")).heartbeat(0.1);
    (1..=3).map(spec).collect()
}

/// Runs servers without a fault.
#[track_caller]
fn check(name: &str, deployment: Deployment, torture: &Torture, refusals: &[&str]) {
    let report = run(name, torture);
    if report.received.duplicated() > 0 {
        panic!("a key came twice; see {}", deployment.keep().display());
    }
    assert!(report.is_reached, "the run fell short");
    assert!(report.received.interrupted() > 0, "no take was interrupted");
    assert_eq!(report.received.miscounted, 0, "answers with fewer keys than asked");
    report.received.check_refusals(refusals);
}

/// One server, so that nothing but a kill can grant the range again.
#[test]
fn a_grant_used_before_it_is_recorded_shows_once_its_server_is_killed() {
    let report = find_duplicates("early-grant", 1, |torture| {
        torture.plan.harms = vec![Harm::new(Deed::Kill, 5, 300..600, 0..50)];
    });
    assert!(report.done(Deed::Kill) > 0);
}

/// No kills: the range is taken from a process that lives and will wake up. Its leases are
/// large, so that the next one waits untouched while the current one is drawn.
#[test]
fn a_lease_reclaimed_by_timeout_from_a_paused_server_shows() {
    let report = find_duplicates("reclaim", 3, |torture| {
        torture.plan.harms = vec![Harm::new(Deed::Pause, 5, 100..200, 1_300..1_600)];
        torture.space_body =
            r#"{"lease_size_min":100000,"lease_size_max":100000,"horizon_seconds":1}"#.to_owned();
    });
    assert!(report.done(Deed::Pause) > 0);
}

/// Nothing happens to the server at all.
#[test]
fn a_mix_that_is_no_bijection_shows_within_a_few_million_keys() {
    let report = find_duplicates("splitmix", 1, |_| {});
    assert!(report.received.len() >= 500_000, "sooner than chance has it");
}

/// Runs servers with a fault, with no harm but what `harm` says, until a key comes twice.
fn find_duplicates(fault: &str, servers: usize, harm: impl Fn(&mut Torture)) -> Report {
    let deployment = Deployment::sqlite();
    let faulty = |number| ServerSpec {
        binary: binary("faulty"),
        ..deployment.server(&format!("server-{number}")).arg("--fault").arg(fault)
    };
    let mut torture = Torture::new((1..=servers).map(faulty).collect());
    torture.plan.harms.clear();
    torture.keys = usize::MAX;
    torture.until_duplicate = true;
    torture.time_max = Duration::from_secs(20);
    harm(&mut torture);
    let report = run(fault, &torture);
    assert!(report.received.duplicated() > 0, "{fault} went unnoticed");
    report
}

fn run(name: &str, torture: &Torture) -> Report {
    // A run that failed has left nothing behind that could harm the next.
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let report = torture.run();
    println!("{name}\n{report}");
    report
}
