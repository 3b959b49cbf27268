//! Heartbeats: how far all spaces have come, what has changed of those an instance serves, and which
//! of its leases are gone.

use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{Grant, Pulse};

use super::Case;

pub(super) async fn a_heartbeat_tells_marks_in_the_order_of_bytes(case: &Case) {
    // In the order of bytes; no collation has them so.
    let names = ["-a", "-b", "A", "Z", "a", "b-", "ba", "é"].map(|end| case.named_space(end));
    for name in names.iter().rev() {
        case.create(name, 1_000, 7).await;
    }
    let other = case.beside(names[3].clone());
    other.lease(10).await;
    let beat = case.store.instances.heartbeat(&case.pulse()).await.unwrap();
    assert_eq!(beat.store, case.store.admin.identity().await.unwrap());
    assert!(beat.marks.is_sorted_by(|(one, _), (two, _)| one.as_bytes() < two.as_bytes()));
    let told: Vec<&String> = beat.marks.iter().map(|(name, _)| name).collect();
    assert_eq!(told, names.iter().collect::<Vec<_>>());
    for (name, mark) in &beat.marks {
        assert_eq!(*mark, case.store.spaces.space(name).await.unwrap().mark, "{name}");
    }
    assert!(beat.changed.is_empty() && beat.lost.is_empty(), "{beat:?}");
}

pub(super) async fn a_heartbeat_brings_the_records_of_what_changed(case: &Case) {
    let spaces = ["a", "b", "c"].map(|end| case.named_space(end));
    for name in &spaces {
        case.create(name, 1_000, 0).await;
    }
    let [same, changed, unserved] = &spaces;
    let revision = async |name: &str| case.store.spaces.space(name).await.unwrap().mark.revision;
    let serves = vec![
        ("nowhere".to_owned(), 1),
        (changed.clone(), revision(changed).await),
        (same.clone(), revision(same).await),
    ];
    for name in [changed, unserved] {
        case.beside(name.clone()).lease(10).await;
    }
    let pulse = Pulse { serves, ..case.pulse() };
    let beat = case.store.instances.heartbeat(&pulse).await.unwrap();
    assert_eq!(beat.changed, [case.store.spaces.space(changed).await.unwrap()]);
    // Also where the store was rolled back.
    let serves = vec![(same.clone(), 50)];
    let beat = case.store.instances.heartbeat(&Pulse { serves, ..pulse }).await.unwrap();
    assert_eq!(beat.changed, [case.store.spaces.space(same).await.unwrap()]);
}

pub(super) async fn a_heartbeat_tells_every_lease_that_is_gone(case: &Case) {
    let (mut last_leases, mut gone) = (Vec::new(), Vec::new());
    for number in 0..30 {
        let name = case.named_space(&format!("{number:02}"));
        let it = case.beside(name.clone());
        it.with_capacity(1_000).await;
        let Grant { lease, .. } = match number % 3 {
            // Of another holder.
            0 => Case { instance: Instance::this_process(), ..it }.lease(10).await,
            _ => it.lease(10).await,
        };
        if number % 3 == 2 {
            last_leases.push((name, lease));
        } else {
            gone.push(name.clone());
            last_leases.push((name, lease + number % 3));
        }
    }
    let beat =
        case.store.instances.heartbeat(&Pulse { last_leases, ..case.pulse() }).await.unwrap();
    let mut lost = beat.lost;
    lost.sort_unstable();
    assert_eq!(lost, gone);
}

impl Case {
    fn named_space(&self, end: &str) -> String {
        format!("{}{end}", self.space)
    }
}
