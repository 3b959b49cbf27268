//! Real servers on one store, killed, paused and stopped under load: no key comes twice. And
//! the same harness on servers with a known fault: it does, and is seen.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keymill_proof::backend::{Kind, skip};
use keymill_proof::torture::Harm;
use keymill_proof::{Report, ServerSpec, Torture, binary};

/// A run needs the machine for itself.
static MACHINE: Mutex<()> = Mutex::new(());

#[test]
fn no_key_comes_twice_from_servers_that_are_killed_paused_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let spec = |number| {
        ServerSpec::keymill(folder.path(), &format!("server-{number}"))
            // Often, so that heartbeats are cut off by kills as leases are.
            .env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.1")
    };
    let torture = Torture::new((1..=3).map(spec).collect());
    let report = run(&torture);
    println!("{report}");
    if report.duplicated > 0 {
        panic!("a key came twice; see {}", folder.keep().display());
    }
    assert!(torture.is_reached_by(&report), "the run fell short");
    assert!(report.interrupted > 0, "no take was interrupted");
    assert_eq!(report.miscounted, 0, "answers with fewer keys than asked");
    let busy = |what: &String| what == "503 no_keys_ready";
    assert!(report.refusals.keys().all(busy), "{:?}", report.refusals);
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
    let backend = match kind.start() {
        Ok(backend) => backend,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let url = backend.url();
    let spec = |number| {
        ServerSpec::keymill_on(&url, folder.path(), &format!("server-{number}"))
            .env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.1")
    };
    let mut torture = Torture::new((1..=3).map(spec).collect());
    torture.keys = 1_000_000;
    torture.kills.count = 8;
    torture.pauses.count = 8;
    torture.stops = Harm::new(3, 500..900, 0..50);
    torture.store_kills = Harm::new(3, 1_500..3_000, 200..1_200);
    torture.store = Some(Arc::new(Mutex::new(backend)));
    let report = run(&torture);
    println!("{kind:?}\n{report}");
    if report.duplicated > 0 {
        panic!("a key came twice; see {}", folder.keep().display());
    }
    assert!(torture.is_reached_by(&report), "the run fell short");
    assert!(report.interrupted > 0, "no take was interrupted");
    assert_eq!(report.miscounted, 0, "answers with fewer keys than asked");
    let away = |what: &String| what == "503 no_keys_ready" || what == "503 store_unavailable";
    assert!(report.refusals.keys().all(away), "{:?}", report.refusals);
}

/// One server, so that nothing but a kill can grant the range again.
#[test]
fn a_grant_used_before_it_is_recorded_shows_once_its_server_is_killed() {
    let report = find_duplicates("early-grant", 1, |torture| {
        torture.kills = Harm::new(5, 300..600, 0..50);
    });
    assert!(report.kills > 0);
}

/// No kills: the range is taken from a process that lives and will wake up. Its leases are
/// large, so that the next one waits untouched while the current one is drawn.
#[test]
fn a_lease_reclaimed_by_timeout_from_a_paused_server_shows() {
    let report = find_duplicates("reclaim", 3, |torture| {
        torture.pauses = Harm::new(5, 100..200, 1_300..1_600);
        torture.space_body =
            r#"{"lease_size_min":100000,"lease_size_max":100000,"horizon_seconds":1}"#.to_owned();
    });
    assert!(report.pauses > 0);
}

/// Nothing happens to the server at all.
#[test]
fn a_mix_that_is_no_bijection_shows_within_a_few_million_keys() {
    let report = find_duplicates("splitmix", 1, |_| {});
    assert!(report.keys >= 500_000, "sooner than chance has it");
}

/// Runs servers with a fault, with no harm but what `harm` says, until a key comes twice.
fn find_duplicates(fault: &str, servers: usize, harm: impl Fn(&mut Torture)) -> Report {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let specs = (1..=servers).map(|number| faulty(folder.path(), number, fault));
    let mut torture = Torture::new(specs.collect());
    torture.kills = Harm::none();
    torture.pauses = Harm::none();
    torture.stops = Harm::none();
    torture.keys = u64::MAX;
    torture.until_duplicate = true;
    torture.time_max = Duration::from_secs(20);
    harm(&mut torture);
    let report = run(&torture);
    println!("{fault}\n{report}");
    assert!(report.duplicated > 0, "{fault} went unnoticed");
    report
}

fn run(torture: &Torture) -> Report {
    // A run that failed has left nothing behind that could harm the next.
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    torture.run()
}

fn faulty(folder: &Path, number: usize, fault: &str) -> ServerSpec {
    let spec = ServerSpec::keymill(folder, &format!("server-{number}"));
    ServerSpec { binary: binary("faulty"), ..spec.arg("--fault").arg(fault) }
}
