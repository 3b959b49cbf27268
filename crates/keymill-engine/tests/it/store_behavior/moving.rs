//! Moving a keyspace: another store has the same rows of it, and goes on where it was.
//!
//! A case moves a space to another name in the same store: what is moved tells nothing of its space.

use std::ops::Range;

use jiff::Timestamp;
use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{
    Confirm, Created, Evidence, Floor, InstancePage, InstanceRecord, LeaseRecord, Mark, MovedLease,
    MovedRow, MovedSpace, NameBatch, NamePurpose, Naming, NewName, Part, Pulse, Purpose, RowsPage,
    SpaceRecord, StoreError,
};
use keymill_engine::space::{Definition, Tuning};

use super::{Case, is_rolled_back};

/// Where a moved space comes from.
const FROM: &str = "0ld0ld0ld0ld0ld0/links";

pub(super) async fn a_moved_space_has_the_same_rows_and_goes_on_where_it_was(case: &Case) {
    case.with_capacity(1_000).await;
    let (first, second) = (case.lease(10).await, case.lease(20).await);
    case.give_back(&first, 4).await.unwrap();
    for (key, ordinal) in [("sale", Some(100)), ("old", Some(200)), ("plain", None)] {
        assert_eq!(case.name(key, ordinal, "me").await, Naming::Made);
    }
    case.remove("old", "me").await;
    import_used(case, &[300, 301]).await;
    let (there, opened) = moved(case).await;
    let before = case.store.spaces.space(&case.space).await.unwrap();
    assert!(opened.mark.revision > before.mark.revision, "{opened:?}");
    let mark = Mark { revision: opened.mark.revision, ..before.mark };
    let name = there.space.clone();
    assert_eq!(opened, SpaceRecord { name, mark, sealed: false, ..before });
    assert_eq!(there.store.spaces.space(&there.space).await.unwrap(), opened);
    for ordinal in [3, 7, 15, 30] {
        assert_eq!(lease_of(&there, ordinal).await, lease_of(case, ordinal).await, "{ordinal}");
    }
    assert_eq!(lease_of(&there, 15).await.map(|lease| lease.lease), Some(second.lease));
    assert_eq!(skips(&there, 0..1_000).await, [100, 200, 300, 301]);
    let names = there
        .store
        .snapshots
        .names_without_ordinal(&there.space, Mark::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(names, ["plain"]);
    // Names are whose they were.
    assert_eq!(there.name("sale", Some(100), "me").await, Naming::Mine);
    assert_eq!(there.name("sale", Some(100), "you").await, Naming::Taken);
    assert_eq!(there.name("old", Some(200), "you").await, Naming::Made);
    assert_eq!(there.name("k300", Some(300), "me").await, Naming::Taken);
    assert_eq!(there.name("k29", Some(29), "me").await, Naming::Taken, "it was granted");
    // What was returned comes first, and then what was never granted.
    let (returned, new) = (there.lease(10).await, there.lease(10).await);
    assert_eq!((returned.ordinals, new.ordinals), (6..10, 30..40));
    assert!(returned.lease > opened.mark.revision, "a lease has a number of its own");
}

pub(super) async fn nothing_is_taken_of_a_space_that_is_being_imported(case: &Case) {
    case.with_capacity(100).await;
    case.lease(10).await;
    let (there, space) = begun(case).await;
    for _ in 0..2 {
        let before = there.store.spaces.space(&there.space).await.unwrap();
        assert!(before.sealed);
        let refusal = there.lease_as(there.ask(1)).await;
        assert!(matches!(refusal, Err(StoreError::Sealed(_))), "{refusal:?}");
        let refusal = there.names_among(1, &[("sale", Some(50))], "me").await;
        assert!(matches!(refusal, Err(StoreError::Sealed(_))), "{refusal:?}");
        let grown = Definition { grown: vec![8], ..Definition::default() };
        let refusal = there.store.spaces.grow(&there.space, &grown, 200, &there.unseen).await;
        assert!(matches!(refusal, Err(StoreError::Sealed(_))), "{refusal:?}");
        let exists = there.create(&there.space, 100, 0).await;
        assert!(matches!(exists, Created::Exists(_)), "{exists:?}");
        assert_eq!(there.store.spaces.space(&there.space).await.unwrap(), before);
        // Nor once rows are there.
        import(&there, &rows_of(case).await).await;
    }
    completed(case, &there, &space).await;
    assert_eq!(there.lease(5).await.ordinals, 10..15);
}

pub(super) async fn a_change_of_settings_does_not_end_an_import(case: &Case) {
    case.with_capacity(100).await;
    let (there, space) = begun(case).await;
    let tune = async |tuning: &Tuning| {
        there.store.spaces.tune(&there.space, tuning, &there.unseen).await.unwrap()
    };
    let wanted = Tuning { lease_size_min: 7, ..Tuning::default() };
    let tuned = tune(&wanted).await;
    assert!(tuned.sealed);
    assert_eq!(tuned.tuning, Tuning { importing: Some(FROM.to_owned()), ..wanted });
    // A revision that was seen never falls.
    let Created::Made(again) = there.store.moves.begin_import(&space).await.unwrap() else {
        panic!("it is importing the same");
    };
    assert!(again.mark.revision >= tuned.mark.revision, "{again:?}");
    let opened = completed(case, &there, &space).await;
    assert!(opened.mark.revision > tuned.mark.revision, "{opened:?}");
    // Whoever has read the settings before the end does not bring the import back.
    let late = tune(&Tuning { importing: Some(FROM.to_owned()), ..Tuning::default() }).await;
    assert_eq!((late.tuning.importing, late.sealed), (None, false));
}

pub(super) async fn an_import_below_the_floor_is_refused(case: &Case) {
    case.with_capacity(1_000).await;
    case.lease(10).await;
    let (there, space) = begun(case).await;
    let begun = there.mark().await;
    let row = |ordinal| [MovedRow::InUse { ordinal, imported_at: at(0) }];
    let first = import(&there, &row(500)).await;
    assert!(first.revision > begun.revision && first.has_reached(begun), "{first:?} {begun:?}");
    assert_eq!(first.revision, there.mark().await.revision);
    // The store has lost rows that were seen there.
    let lost = there.floor(first.revision + 1, first.next);
    let moves = &there.store.moves;
    assert!(is_rolled_back(&moves.import_rows(&there.space, FROM, &row(501), &lost).await));
    assert!(is_rolled_back(&moves.finish_import(&space, &lost).await));
    let another = Floor { store: "another".to_owned(), mark: Mark::default() };
    assert!(is_rolled_back(&moves.import_rows(&there.space, FROM, &row(501), &another).await));
    assert!(is_rolled_back(&moves.finish_import(&space, &another).await));
    assert_eq!(
        (there.mark().await.revision, skips(&there, 0..1_000).await),
        (first.revision, vec![500])
    );
    let seen = there.floor(first.revision, first.next);
    let second = moves.import_rows(&there.space, FROM, &row(501), &seen).await.unwrap();
    let seen = there.floor(second.revision, second.next);
    let opened = moves.finish_import(&space, &seen).await.unwrap();
    assert!(opened.mark.revision > second.revision && !opened.sealed, "{opened:?}");
    assert_eq!(skips(&there, 0..1_000).await, [500, 501]);
}

/// As after a rollback: what was seen may have been granted, returned ranges too.
pub(super) async fn an_import_that_was_advanced_begins_again_beyond_it(case: &Case) {
    case.with_capacity(1_000).await;
    let grant = case.lease(10).await;
    case.give_back(&grant, 4).await.unwrap();
    let (there, space) = begun(case).await;
    let seen = there.floor(there.mark().await.revision + 50, 300);
    let by = &there.instance;
    let advanced = there.store.spaces.advance(&there.space, seen.mark, by).await.unwrap();
    assert_eq!((advanced.sealed, advanced.mark.next), (true, 300));
    let begun = there.store.moves.begin_import(&space).await.unwrap();
    assert!(matches!(begun, Created::Made(_)), "{begun:?}");
    let rows = rows_of(case).await;
    there.store.moves.import_rows(&there.space, FROM, &rows, &seen).await.unwrap();
    let opened = there.store.moves.finish_import(&space, &seen).await.unwrap();
    assert_eq!((opened.sealed, opened.returned.count()), (false, 0));
    assert_eq!(there.lease_above(&seen, &there.ask(10)).await.unwrap().ordinals, 300..310);
}

pub(super) async fn rows_that_are_there_stay_as_they_are(case: &Case) {
    case.with_capacity(1_000).await;
    let grant = case.lease(10).await;
    case.lease(10).await;
    case.give_back(&grant, 5).await.unwrap();
    case.name("sale", Some(100), "me").await;
    case.name("plain", None, "me").await;
    import_used(case, &[300]).await;
    let (there, space) = begun(case).await;
    let rows = rows_of(case).await;
    import(&there, &rows).await;
    import(&there, &[rows.clone(), rows.clone()].concat()).await;
    assert!(matches!(there.store.moves.begin_import(&space).await.unwrap(), Created::Made(_)));
    let mut others = rows.clone();
    for row in &mut others {
        match row {
            MovedRow::Name { owner, .. } => "another".clone_into(owner),
            MovedRow::Lease(lease) => lease.end += 1,
            MovedRow::InUse { imported_at, .. } => *imported_at = at(0),
            _ => {}
        }
    }
    assert_ne!(others, rows);
    import(&there, &others).await;
    assert_same(rows, rows_of(&there).await);
}

pub(super) async fn only_a_space_that_is_importing_takes_rows(case: &Case) {
    case.with_capacity(100).await;
    let row = [MovedRow::InUse { ordinal: 90, imported_at: at(0) }];
    let (there, space) = begun(case).await;
    let other = "another0another0/links";
    let mut of_other = space.clone();
    of_other.tuning.importing = Some(other.to_owned());
    refuses(&there, &of_other, &row).await;
    // It was sealed for good, and imports nothing.
    refuses(case, &MovedSpace { name: case.space.clone(), ..space.clone() }, &row).await;
    completed(case, &there, &space).await;
    refuses(&there, &space, &row).await;
    // Nor does one that was sealed since.
    there.store.spaces.seal(&there.space, &there.unseen).await.unwrap();
    refuses(&there, &space, &row).await;
}

pub(super) async fn many_rows_are_imported_at_once_and_their_holders_known(case: &Case) {
    case.with_capacity(10_000).await;
    let address = Some("127.0.0.1:8080".to_owned());
    let (last_leases, serves) = (Vec::new(), Vec::new());
    let instance = case.instance.clone();
    let pulse = Pulse { instance, address, stopping: false, last_leases, serves };
    case.store.instances.heartbeat(&pulse).await.unwrap();
    let known = instance_of(case, &case.instance.id).await;
    let (there, _) = begun(case).await;
    let holder = Instance { started_at: at(1), ..Instance::this_process() };
    let lease = |lease: u64| {
        MovedRow::Lease(MovedLease {
            lease,
            start: lease * 10,
            end: lease * 10 + 10,
            closed_at_ordinal: lease.is_multiple_of(2).then_some(lease * 10 + 5),
            purpose: Purpose::Lease,
            holder: if lease == 7 { known.instance.clone() } else { holder.clone() },
            granted_at: at(5),
            closed_at: lease.is_multiple_of(2).then_some(at(9)),
        })
    };
    let name = |number: u64| MovedRow::Name {
        key: format!("n{number}"),
        ordinal: (!number.is_multiple_of(3)).then_some(5_000 + number),
        purpose: NamePurpose::Alias,
        owner: "me".to_owned(),
        created_at: at(3),
        removed_at: number.is_multiple_of(5).then_some(at(4)),
    };
    let rows: Vec<MovedRow> = (2..302).map(lease).chain((0..300).map(name)).collect();
    import(&there, &rows).await;
    assert_same(rows, rows_of(&there).await);
    let found = instance_of(case, &holder.id).await;
    assert_eq!((found.instance, found.seen_at, found.stopped_at), (holder, at(5), None));
    assert_eq!(instance_of(case, &case.instance.id).await.address, known.address);
}

/// Some stores keep keys that are in use as names, and some as mere ordinals.
pub(super) async fn keys_in_use_are_taken_whichever_store_they_come_from(case: &Case) {
    case.with_capacity(1_000).await;
    let (there, space) = begun(case).await;
    let name = MovedRow::Name {
        key: "k60".to_owned(),
        ordinal: Some(60),
        purpose: NamePurpose::Used,
        owner: String::new(),
        created_at: at(0),
        removed_at: None,
    };
    import(&there, &[MovedRow::InUse { ordinal: 50, imported_at: at(0) }, name]).await;
    there.store.moves.finish_import(&space, &there.unseen).await.unwrap();
    assert_eq!(skips(&there, 0..1_000).await, [50, 60]);
    for ordinal in [50, 60] {
        let key = format!("k{ordinal}");
        assert_eq!(there.name(&key, Some(ordinal), "me").await, Naming::Taken, "{key}");
        assert_eq!(import_used(&there, &[ordinal]).await, [Naming::Mine], "{key}");
        let name = NewName { key, ordinal: Some(ordinal) };
        let found = there.store.names.named(&there.space, &name).await.unwrap().unwrap();
        assert_eq!((found.purpose, found.created_at), (NamePurpose::Used, at(0)));
        let evidence = Evidence::Name { name, owner: String::new() };
        let (space, reached) = (there.space.clone(), Mark::default());
        let what = Confirm { space, reached, evidence, skips_in: 0..0 };
        assert!(there.store.snapshots.confirm(&what).await.unwrap().on_record, "{ordinal}");
    }
    assert_eq!(counted(&there).await, 2);
}

/// A space of the same store, and what is to be moved there from this one: it is sealed here, and
/// importing there.
pub(super) async fn begun(case: &Case) -> (Case, MovedSpace) {
    let mut space =
        MovedSpace::from(case.store.spaces.seal(&case.space, &case.unseen).await.unwrap());
    let there = beside(case, format!("{}-moved", case.space));
    space.name = there.space.clone();
    space.tuning.importing = Some(FROM.to_owned());
    let Created::Made(record) = there.store.moves.begin_import(&space).await.unwrap() else {
        panic!("there was none of this name");
    };
    assert_eq!((record.sealed, record.tuning.importing.as_deref()), (true, Some(FROM)));
    (there, space)
}

/// Moves all rows there, and opens the space.
pub(super) async fn completed(case: &Case, there: &Case, space: &MovedSpace) -> SpaceRecord {
    let rows = rows_of(case).await;
    for some in rows.chunks(7) {
        import(there, some).await;
    }
    assert_same(rows, rows_of(there).await);
    there.store.moves.finish_import(space, &there.unseen).await.unwrap()
}

/// The whole way.
pub(super) async fn moved(case: &Case) -> (Case, SpaceRecord) {
    let (there, space) = begun(case).await;
    let opened = completed(case, &there, &space).await;
    (there, opened)
}

pub(super) async fn import(there: &Case, rows: &[MovedRow]) -> Mark {
    there.store.moves.import_rows(&there.space, FROM, rows, &there.unseen).await.unwrap()
}

/// All rows of a space, a few at a time.
pub(super) async fn rows_of(case: &Case) -> Vec<MovedRow> {
    let mut rows = Vec::new();
    for part in Part::ALL {
        let mut page = RowsPage { space: case.space.clone(), part, after: None, limit: 3 };
        loop {
            let found = case.store.moves.moved_rows(&page).await.unwrap();
            rows.extend(found.rows);
            assert!(rows.len() <= 10_000, "the pages have no end");
            match found.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
    }
    rows
}

/// The number of names on record.
pub(super) async fn counted(case: &Case) -> u64 {
    let counts = case.store.names.count_names(Some(&case.space)).await.unwrap();
    assert!(counts.keys().all(|space| *space == case.space), "{counts:?}");
    counts.get(&case.space).copied().unwrap_or(0)
}

/// A time on record, which stores keep in milliseconds.
pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// Another space, through the same handle.
fn beside(case: &Case, space: String) -> Case {
    let (url, store, unseen) = (case.url.clone(), case.store.clone(), case.unseen.clone());
    Case { url, store, unseen, instance: case.instance.clone(), space }
}

/// The order of rows is the store's affair.
#[track_caller]
fn assert_same(mut rows: Vec<MovedRow>, mut others: Vec<MovedRow>) {
    for rows in [&mut rows, &mut others] {
        // Keys that wait in a pool may be numbered anew.
        for row in rows.iter_mut() {
            if let MovedRow::Available { id, .. } | MovedRow::PoolName { id, .. } = row {
                *id = 0;
            }
        }
        rows.sort_by_key(|row| format!("{row:?}"));
    }
    assert_eq!(rows, others);
}

/// A space that is not importing what is said to come refuses all of it, and stays as it is.
async fn refuses(there: &Case, space: &MovedSpace, rows: &[MovedRow]) {
    let before = (there.store.spaces.space(&there.space).await.unwrap(), rows_of(there).await);
    let from = space.tuning.importing.as_deref().unwrap();
    let refusal = there.store.moves.import_rows(&there.space, from, rows, &there.unseen).await;
    assert!(matches!(refusal, Err(StoreError::Outdated(_))), "{refusal:?}");
    let refusal = there.store.moves.finish_import(space, &there.unseen).await;
    assert!(matches!(refusal, Err(StoreError::Outdated(_))), "{refusal:?}");
    let exists = there.store.moves.begin_import(space).await.unwrap();
    assert!(matches!(exists, Created::Exists(_)), "{exists:?}");
    let after = (there.store.spaces.space(&there.space).await.unwrap(), rows_of(there).await);
    assert_eq!(after, before);
}

/// A lease as it is in every space that it was moved to.
async fn lease_of(case: &Case, ordinal: u64) -> Option<LeaseRecord> {
    let found = case.store.leases.lease_of(&case.space, ordinal).await.unwrap();
    found.map(|lease| LeaseRecord { space: String::new(), ..lease })
}

async fn skips(case: &Case, skips_in: Range<u64>) -> Vec<u64> {
    let (space, reached) = (case.space.clone(), Mark::default());
    let what = Confirm { space, reached, evidence: Evidence::Mark, skips_in };
    case.store.snapshots.confirm(&what).await.unwrap().skips
}

async fn import_used(case: &Case, ordinals: &[u64]) -> Vec<Naming> {
    let name = |ordinal: &u64| NewName { key: format!("k{ordinal}"), ordinal: Some(*ordinal) };
    let batch = NameBatch {
        space: case.space.clone(),
        purpose: NamePurpose::Used,
        owner: String::new(),
        names: ordinals.iter().map(name).collect(),
        generations: 1,
    };
    case.store.names.add_names(&batch, &case.unseen).await.unwrap().outcomes
}

async fn instance_of(case: &Case, id: &str) -> InstanceRecord {
    let page = InstancePage { after: None, limit: 1_000 };
    let all = case.store.instances.instances(&page).await.unwrap();
    all.into_iter().find(|record| record.instance.id == id).unwrap()
}
