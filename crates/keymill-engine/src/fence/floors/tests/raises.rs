//! Raising: what was raised survives, is seen by others at once, and costs few syncs.

use super::*;
use crate::store::{ERA, History};

#[test]
fn a_floor_survives_the_process_and_only_rises() {
    let data_dir = DataDir::new();
    data_dir.open().raise("links", mark(7, 500)).unwrap();
    data_dir.open().raise("links", mark(3, 900)).unwrap();
    assert_eq!(data_dir.mark("links"), mark(7, 900));
    assert_eq!(data_dir.mark("other"), Mark::default());
}

#[test]
fn a_raise_is_in_the_log_as_text_when_it_returns() {
    let data_dir = DataDir::new();
    let floors = data_dir.open();
    floors.raise("links", mark(7, 500)).unwrap();
    let text = data_dir.log();
    assert!(
        text.contains(r#""store":"s1","floors":{"links":{"revision":7,"next":500}}"#),
        "{text}"
    );
    assert_eq!(data_dir.mark("links"), mark(7, 500));
}

#[test]
fn processes_that_share_a_log_see_each_others_floors_at_once() {
    let data_dir = DataDir::new();
    let (one, two) = (data_dir.open(), data_dir.open());
    one.raise("a", mark(1, 10)).unwrap();
    two.raise("b", mark(2, 20)).unwrap();
    two.raise("a", mark(5, 50)).unwrap();
    assert_eq!(one.of("a").unwrap().mark, mark(5, 50));
    assert_eq!(one.of("b").unwrap().mark, mark(2, 20));
    assert_eq!(one.all().unwrap(), two.all().unwrap());
    assert_eq!(one.all().unwrap().len(), 2);
}

#[test]
fn raises_that_wait_share_one_sync() {
    let data_dir = DataDir::new();
    let floors = data_dir.open();
    // While another process holds the lock, a thousand raises come.
    let held = FileLock::take(&data_dir.paths.lock, Duration::ZERO).unwrap();
    let (answer, answered) = mpsc::channel();
    for number in 0..1_000 {
        let answer = answer.clone();
        let marks = vec![(format!("space-{number}"), mark(1, number))];
        floors.ask(marks, Box::new(move |done| answer.send(done).unwrap()));
    }
    drop(held);
    for _ in 0..1_000 {
        answered.recv().unwrap().unwrap();
    }
    // The first of them may have been alone.
    assert!(floors.syncs() <= 2, "{} syncs", floors.syncs());
    assert_eq!(data_dir.open().all().unwrap().len(), 1_000);
}

#[test]
fn a_raise_that_raises_nothing_writes_nothing_and_needs_no_lock() {
    let data_dir = DataDir::new();
    let floors = data_dir.open();
    floors.raise("a", Mark::default()).unwrap();
    assert!(!data_dir.paths.log.exists());
    floors.raise("a", mark(5, 50)).unwrap();
    let (log, syncs) = (data_dir.log(), floors.syncs());
    let _held = FileLock::take(&data_dir.paths.lock, Duration::ZERO).unwrap();
    for lower in [mark(5, 50), mark(4, 50), mark(5, 1), mark(1, 1)] {
        floors.raise("a", lower).unwrap();
    }
    // More than are looked at on the spot: the writer finds that there is nothing to do.
    floors.raise_all(vec![("a".to_owned(), mark(5, 50)); FEW + 1]).unwrap();
    assert_eq!((data_dir.log(), floors.syncs()), (log, syncs));
}

#[test]
fn what_another_process_wrote_is_synced_before_it_is_relied_on() {
    let data_dir = DataDir::new();
    let (one, two) = (data_dir.open(), data_dir.open());
    one.raise("a", mark(5, 50)).unwrap();
    assert_eq!(two.of("a").unwrap().mark, mark(5, 50));
    let log = data_dir.log();
    for _ in 0..3 {
        two.raise("a", mark(5, 50)).unwrap();
        assert_eq!((data_dir.log(), two.syncs()), (log.clone(), 1));
    }
}

#[test]
fn a_floor_that_one_log_has_is_written_to_the_other() {
    let (own, common) = (DataDir::new(), DataDir::new());
    let files = vec![own.path.clone(), common.path.clone()];
    let floors = Floors::open("s1".to_owned(), files).unwrap();
    common.open().raise("a", mark(5, 50)).unwrap();
    assert_eq!(floors.of("a").unwrap().mark, mark(5, 50));
    floors.raise("a", mark(4, 40)).unwrap();
    assert_eq!((own.mark("a"), common.mark("a")), (mark(5, 50), mark(5, 50)));
}

#[tokio::test]
async fn ten_thousand_spaces_are_raised_together_and_read_one_by_one() {
    let data_dir = DataDir::new();
    let floors = Arc::new(data_dir.open());
    let marks = (0..10_000).map(|n| (format!("space-{n}"), mark(1, n))).collect();
    raise_all(&floors, marks).await.unwrap();
    assert!(floors.syncs() <= 3, "{} syncs", floors.syncs());
    raise_to(&floors, "space-77", mark(2, 77)).await.unwrap();
    assert_eq!(floor_of(&floors, "space-77").await.unwrap().mark, mark(2, 77));
    assert_eq!(all_floors(&floors).await.unwrap().len(), 10_000);
    assert_eq!(data_dir.mark("space-9999"), mark(1, 9_999));
}

#[test]
fn a_new_space_must_be_made_on_the_latest_timeline() {
    let floors = Floors::open("s1".to_owned(), Vec::new()).unwrap();
    floors.raise("links", on((7, 2), 5)).unwrap();
    let new = floors.of("new").unwrap().mark;
    assert!(!new.is_seen() && new.history == on((7, 2), 0).history);
    // An advance on another server has decided for all.
    floors.raise("orders", on((8, 1), ERA)).unwrap();
    assert_eq!(floors.of("new").unwrap().mark.history, on((8, 1), 0).history);
}

fn on(history: (u64, u64), revision: u64) -> Mark {
    let history = History { server: history.0, timeline: history.1 };
    Mark { revision, next: 10, history, ..Mark::default() }
}
