//! Floors as their callers see them. Two `Floors` on one file are to each other like two processes.

use std::fs;
use std::io::Write;
use std::sync::mpsc;

use super::*;
#[cfg(feature = "sqlite")]
use crate::store::floor_file::FloorReader;
use crate::store::floor_file::appender::Appender;
use crate::store::floor_file::log::record;
use crate::store::{ERA, History};

fn mark(revision: u64, next: u64) -> Mark {
    Mark { revision, next, ..Mark::default() }
}

fn on(history: (u64, u64), revision: u64) -> Mark {
    let history = History { server: history.0, timeline: history.1 };
    Mark { revision, next: 10, history, ..Mark::default() }
}

impl Floors {
    /// Raises the floor of a space, on disk before in memory, and waits for it.
    fn raise(&self, space: &str, mark: Mark) -> io::Result<()> {
        self.raise_all(vec![(space.to_owned(), mark)])
    }

    /// Raises the floors of many spaces with few writes, and waits for it. Where one cannot be
    /// raised, some of the others may be.
    fn raise_all(&self, marks: Vec<(String, Mark)>) -> io::Result<()> {
        let (answer, answered) = mpsc::channel();
        self.ask(marks, Box::new(move |done| drop(answer.send(done))));
        answered.recv().unwrap_or_else(|_| Err(unanswered()))
    }

    /// How often a log was synced for these floors.
    fn syncs(&self) -> u64 {
        lock_shared(&self.shared).syncs
    }
}

/// A data directory.
struct Place {
    _folder: tempfile::TempDir,
    path: PathBuf,
    paths: Paths,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("floors.json");
        Place { _folder: folder, paths: Paths::of(&path), path }
    }

    fn try_open(&self) -> io::Result<Floors> {
        Floors::open("s1".to_owned(), vec![self.path.clone()])
    }

    fn open(&self) -> Floors {
        self.try_open().unwrap()
    }

    /// What a process that starts now knows.
    fn mark(&self, space: &str) -> Mark {
        self.open().of(space).unwrap().mark
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.paths.log).unwrap()
    }

    fn write_log(&self, text: &str) {
        fs::write(&self.paths.log, text).unwrap();
    }

    fn append(&self, bytes: &[u8]) {
        let mut file = OpenOptions::new().append(true).open(&self.paths.log).unwrap();
        file.write_all(bytes).unwrap();
    }
}

#[test]
fn a_lower_timeline_or_another_server_has_not_reached_a_floor_until_an_advance() {
    let floor = on((7, 2), 5);
    for (history, reached) in [((7, 2), true), ((7, 3), true), ((7, 1), false), ((8, 3), false)] {
        assert_eq!(on(history, 9).has_reached(floor), reached, "{history:?}");
        assert!(on(history, ERA).has_reached(floor), "{history:?}");
    }
    assert!(on((7, 1), 5).has_reached(mark(5, 10)));
    // Once advanced there, that history is the one that counts.
    assert_eq!(floor.max(on((8, 1), ERA)).history, on((8, 1), 0).history);
    assert_eq!(floor.max(on((7, 1), 9)).history, floor.history);
}

#[test]
fn marks_merge_to_the_same_whichever_comes_first() {
    let marks = [mark(5, 10), mark(5, 20), on((7, 1), 5), on((7, 2), 5), on((8, 2), ERA)];
    for one in marks {
        for other in marks {
            assert_eq!(one.max(other), other.max(one), "{one:?} and {other:?}");
        }
    }
    // A history that is known is not lost to one that is not.
    assert_eq!(on((7, 1), 5).max(mark(5, 10)).history, on((7, 1), 5).history);
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

#[test]
fn a_floor_survives_the_process_and_only_rises() {
    let place = Place::new();
    place.open().raise("links", mark(7, 500)).unwrap();
    place.open().raise("links", mark(3, 900)).unwrap();
    assert_eq!(place.mark("links"), mark(7, 900));
    assert_eq!(place.mark("other"), Mark::default());
}

#[test]
fn a_raise_is_in_the_log_as_text_when_it_returns() {
    let place = Place::new();
    let floors = place.open();
    floors.raise("links", mark(7, 500)).unwrap();
    let text = place.log();
    assert!(
        text.contains(r#""store":"s1","floors":{"links":{"revision":7,"next":500}}"#),
        "{text}"
    );
    assert_eq!(place.mark("links"), mark(7, 500));
}

#[test]
fn processes_that_share_a_log_see_each_others_floors_at_once() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    one.raise("a", mark(1, 10)).unwrap();
    two.raise("b", mark(2, 20)).unwrap();
    two.raise("a", mark(5, 50)).unwrap();
    assert_eq!(one.of("a").unwrap().mark, mark(5, 50));
    assert_eq!(one.of("b").unwrap().mark, mark(2, 20));
    assert_eq!(one.all().unwrap(), two.all().unwrap());
    assert_eq!(one.all().unwrap().len(), 2);
}

#[test]
fn another_store_is_refused_by_name() {
    let place = Place::new();
    let first = place.open();
    assert!(first.check_store().unwrap().is_ok());
    first.raise("a", mark(1, 1)).unwrap();
    assert!(first.check_store().unwrap().is_ok());
    let second = Floors::open("s2".to_owned(), vec![place.path.clone()]).unwrap();
    let refusal = second.check_store().unwrap().unwrap_err().to_string();
    assert!(refusal.contains("s1") && refusal.contains("s2"), "{refusal}");
    assert!(refusal.contains("floors.log") && !refusal.contains("floors.json"), "{refusal}");
    // The floors of both are kept, also when the log is compacted.
    second.raise("a", mark(9, 9)).unwrap();
    Appender::new(place.paths.clone()).compact().unwrap();
    assert_eq!(place.mark("a"), mark(1, 1));
    assert_eq!(second.of("a").unwrap().mark, mark(9, 9));
    assert!(first.check_store().unwrap().is_err());
}

#[test]
fn raises_that_wait_share_one_sync() {
    let place = Place::new();
    let floors = place.open();
    // While another process holds the lock, a thousand raises come.
    let held = FileLock::take(&place.paths.lock, Duration::ZERO).unwrap();
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
    assert_eq!(place.open().all().unwrap().len(), 1_000);
}

#[test]
fn a_raise_that_raises_nothing_writes_nothing_and_needs_no_lock() {
    let place = Place::new();
    let floors = place.open();
    floors.raise("a", Mark::default()).unwrap();
    assert!(!place.paths.log.exists());
    floors.raise("a", mark(5, 50)).unwrap();
    let (log, syncs) = (place.log(), floors.syncs());
    let _held = FileLock::take(&place.paths.lock, Duration::ZERO).unwrap();
    for lower in [mark(5, 50), mark(4, 50), mark(5, 1), mark(1, 1)] {
        floors.raise("a", lower).unwrap();
    }
    // More than are looked at on the spot: the writer finds that there is nothing to do.
    floors.raise_all(vec![("a".to_owned(), mark(5, 50)); FEW + 1]).unwrap();
    assert_eq!((place.log(), floors.syncs()), (log, syncs));
}

#[test]
fn what_another_process_wrote_is_synced_before_it_is_relied_on() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    one.raise("a", mark(5, 50)).unwrap();
    assert_eq!(two.of("a").unwrap().mark, mark(5, 50));
    let log = place.log();
    for _ in 0..3 {
        two.raise("a", mark(5, 50)).unwrap();
        assert_eq!((place.log(), two.syncs()), (log.clone(), 1));
    }
}

#[test]
fn a_floor_that_one_log_has_is_written_to_the_other() {
    let (own, common) = (Place::new(), Place::new());
    let files = vec![own.path.clone(), common.path.clone()];
    let floors = Floors::open("s1".to_owned(), files).unwrap();
    common.open().raise("a", mark(5, 50)).unwrap();
    assert_eq!(floors.of("a").unwrap().mark, mark(5, 50));
    floors.raise("a", mark(4, 40)).unwrap();
    assert_eq!((own.mark("a"), common.mark("a")), (mark(5, 50), mark(5, 50)));
}

#[test]
fn a_write_that_fails_fails_all_its_raises_and_raises_nothing() {
    let place = Place::new();
    let floors = place.open();
    floors.raise("a", mark(1, 10)).unwrap();
    let held = FileLock::take(&place.paths.lock, Duration::ZERO).unwrap();
    let (answer, answered) = mpsc::channel();
    for space in ["a", "b", "c"] {
        let answer = answer.clone();
        let marks = vec![(space.to_owned(), mark(2, 20))];
        floors.ask(marks, Box::new(move |done| answer.send(done).unwrap()));
    }
    fs::remove_file(&place.paths.log).unwrap();
    fs::create_dir(&place.paths.log).unwrap();
    drop(held);
    for _ in 0..3 {
        let error = answered.recv().unwrap().unwrap_err().to_string();
        assert!(error.contains("floors.log"), "{error}");
    }
    assert!(floors.of("a").is_err());
    fs::remove_dir(&place.paths.log).unwrap();
    assert_eq!(floors.of("a").unwrap().mark, mark(1, 10));
    assert_eq!(floors.of("b").unwrap().mark, Mark::default());
    floors.raise("a", mark(3, 30)).unwrap();
    assert_eq!(place.mark("a"), mark(3, 30));
}

#[test]
fn a_log_that_cannot_be_made_fails_the_raise() {
    let place = Place::new();
    let floors = place.open();
    fs::create_dir(&place.paths.log_new).unwrap();
    let error = floors.raise("a", mark(1, 10)).unwrap_err().to_string();
    assert!(error.contains("floors.log.new"), "{error}");
    assert_eq!(floors.of("a").unwrap().mark, Mark::default());
}

#[test]
fn an_unfinished_record_is_not_read_until_it_is_complete() {
    let place = Place::new();
    let floors = place.open();
    floors.raise("a", mark(1, 10)).unwrap();
    let line = record("s1", &[("a", mark(9, 90))]);
    for (from, to) in [(0, 30), (30, line.len() - 1)] {
        place.append(&line.as_bytes()[from..to]);
        assert_eq!(floors.of("a").unwrap().mark, mark(1, 10));
        assert_eq!(place.mark("a"), mark(1, 10));
    }
    place.append(b"\n");
    assert_eq!(floors.of("a").unwrap().mark, mark(9, 90));
    floors.raise("a", mark(10, 90)).unwrap();
    assert_eq!((place.mark("a"), place.log().lines().count()), (mark(10, 90), 4));
}

#[test]
fn an_unfinished_record_is_overwritten_by_the_next_raise() {
    let place = Place::new();
    place.open().raise("a", mark(1, 10)).unwrap();
    let whole = place.log();
    place.append(&record("s1", &[("a", mark(9, 90))]).as_bytes()[..30]);
    place.open().raise("a", mark(2, 20)).unwrap();
    assert_eq!(place.log(), whole + &record("s1", &[("a", mark(2, 20))]));
    assert_eq!(place.mark("a"), mark(2, 20));
}

#[test]
fn a_damaged_record_is_named_by_file_and_line_and_not_passed_over() {
    let place = Place::new();
    let floors = place.open();
    for revision in 1..=3 {
        floors.raise("a", mark(revision, 10)).unwrap();
    }
    let whole = place.log();
    let second = whole.lines().nth(2).unwrap();
    place.write_log(&whole.replace(second, &second.replace("\"revision\":2", "\"revision\":8")));
    let error = place.try_open().unwrap_err().to_string();
    assert!(error.contains("floors.log") && error.contains("line 3"), "{error}");
    // Whoever has read it before notices nothing, because only what is new is read.
    assert_eq!(floors.of("a").unwrap().mark, mark(3, 10));
    // What the message says leads out.
    place.write_log(&whole.replace(second, ""));
    assert_eq!(place.mark("a"), mark(3, 10));
}

#[test]
fn what_a_compaction_wrote_cannot_be_an_unfinished_record() {
    let place = Place::new();
    place
        .open()
        .raise_all(vec![("a".to_owned(), mark(1, 1)), ("b".to_owned(), mark(2, 2))])
        .unwrap();
    Appender::new(place.paths.clone()).compact().unwrap();
    let whole = place.log();
    assert_eq!(whole.lines().count(), 3);
    let last = whole.lines().last().unwrap().len() + 1;
    for cut in [1, 10, last] {
        place.write_log(&whole[..whole.len() - cut]);
        let error = place.try_open().unwrap_err().to_string();
        assert!(error.contains("line 3"), "{cut} cut off: {error}");
    }
    for strange in ["", "\n", "a log of something else\n"] {
        place.write_log(strange);
        let error = place.try_open().unwrap_err().to_string();
        assert!(error.contains("not a floor file"), "{error}");
    }
}

#[test]
fn compaction_loses_nothing_of_two_writers_at_once() {
    const ROUNDS: u64 = 12;
    const SPACES: u64 = 200;
    let place = Place::new();
    let watching = place.open();
    std::thread::scope(|scope| {
        for writer in ["one", "two"] {
            let floors = place.open();
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    let marks = (0..SPACES).map(|n| (format!("{writer}-{n}"), mark(round, n)));
                    floors.raise_all(marks.collect()).unwrap();
                    let seen = floors.of(&format!("{writer}-7")).unwrap().mark;
                    assert_eq!(seen, mark(round, 7));
                }
            });
        }
    });
    for floors in [watching, place.open()] {
        let all = floors.all().unwrap();
        assert_eq!(all.len() as u64, 2 * SPACES);
        for (space, found) in all {
            let number = space.split('-').nth(1).unwrap().parse().unwrap();
            assert_eq!(found, mark(ROUNDS, number), "{space}");
        }
    }
    let log = place.log();
    assert!(!log.starts_with(r#"{"floors":1,"lines":0}"#), "it was never compacted");
    let compacted = fs::metadata(&place.paths.log).unwrap().len();
    assert!(compacted < 150_000, "{compacted} bytes");
    assert!(!place.paths.log_new.exists());
}

#[test]
fn the_floors_of_an_earlier_version_count() {
    let place = Place::new();
    let write_old = |revision: u64| {
        let text = format!(r#"{{"s1":{{"links":{{"revision":{revision},"next":500}}}}}}"#);
        let new = place.path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &place.path).unwrap();
    };
    write_old(7);
    let floors = place.open();
    assert_eq!(floors.of("links").unwrap().mark, mark(7, 500));
    // One that runs on beside this one is heard.
    write_old(8);
    assert_eq!(floors.of("links").unwrap().mark, mark(8, 500));
    // The first log takes them in, and from then on does not need the old file.
    floors.raise("orders", mark(1, 1)).unwrap();
    fs::remove_file(&place.path).unwrap();
    assert_eq!(place.mark("links"), mark(8, 500));
    assert_eq!(floors.of("links").unwrap().mark, mark(8, 500));
}

#[test]
fn an_earlier_version_that_comes_back_finds_what_was_raised() {
    let place = Place::new();
    fs::write(&place.path, r#"{"s1":{"links":{"revision":7,"next":500}}}"#).unwrap();
    let floors = place.open();
    floors.raise("links", mark(9, 900)).unwrap();
    drop(floors);
    let old: crate::store::floor_file::log::FileContent =
        serde_json::from_str(&fs::read_to_string(&place.path).unwrap()).unwrap();
    assert_eq!(old["s1"]["links"], mark(9, 900));
    // Where there was none, none is made.
    let other = Place::new();
    other.open().raise("links", mark(1, 1)).unwrap();
    assert!(!other.path.exists());
}

#[test]
fn a_broken_file_of_an_earlier_version_is_named_and_not_taken_for_an_empty_one() {
    let place = Place::new();
    fs::write(&place.path, "{").unwrap();
    let error = place.try_open().unwrap_err().to_string();
    assert!(error.contains("floors.json") && error.contains("not a floor file"), "{error}");
}

#[tokio::test]
async fn ten_thousand_spaces_are_raised_together_and_read_one_by_one() {
    let place = Place::new();
    let floors = Arc::new(place.open());
    let marks = (0..10_000).map(|n| (format!("space-{n}"), mark(1, n))).collect();
    raise_all(&floors, marks).await.unwrap();
    assert!(floors.syncs() <= 3, "{} syncs", floors.syncs());
    raise_to(&floors, "space-77", mark(2, 77)).await.unwrap();
    assert_eq!(floor_of(&floors, "space-77").await.unwrap().mark, mark(2, 77));
    assert_eq!(all_floors(&floors).await.unwrap().len(), 10_000);
    assert_eq!(place.mark("space-9999"), mark(1, 9_999));
}

#[test]
fn a_log_that_was_removed_comes_back_with_the_floors_of_all_spaces() {
    let place = Place::new();
    let floors = place.open();
    floors.raise("a", mark(3, 30)).unwrap();
    floors.raise("b", mark(4, 40)).unwrap();
    fs::remove_file(&place.paths.log).unwrap();
    floors.raise("b", mark(5, 50)).unwrap();
    assert_eq!((place.mark("a"), place.mark("b")), (mark(3, 30), mark(5, 50)));
}

#[cfg(feature = "sqlite")]
#[test]
fn a_reader_sees_each_raise_at_once_and_keeps_stores_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keymill.db-floors.json");
    let mut reader = FloorReader::new(&path);
    assert_eq!(reader.mark("s1", "links").unwrap(), Mark::default());
    let one = Floors::open("s1".to_owned(), vec![path.clone()]).unwrap();
    let two = Floors::open("s2".to_owned(), vec![path.clone()]).unwrap();
    for round in 1..5 {
        one.raise("links", mark(round, 10 * round)).unwrap();
        two.raise("links", mark(9 * round, 0)).unwrap();
        assert_eq!(reader.mark("s1", "links").unwrap(), mark(round, 10 * round));
        assert_eq!(reader.mark("s1", "other").unwrap(), Mark::default());
        let mut fresh = FloorReader::new(&path);
        assert_eq!(fresh.mark("s2", "links").unwrap(), mark(9 * round, 0));
    }
    assert_eq!(reader.mark("s2", "links").unwrap(), mark(36, 0));
    assert_eq!(reader.mark("s1", "links").unwrap(), mark(4, 40));
}

#[cfg(feature = "sqlite")]
#[test]
fn a_reader_follows_a_log_that_was_compacted() {
    let place = Place::new();
    let floors = place.open();
    floors.raise("links", mark(1, 10)).unwrap();
    let mut reader = FloorReader::new(&place.path);
    assert_eq!(reader.mark("s1", "links").unwrap(), mark(1, 10));
    Appender::new(place.paths.clone()).compact().unwrap();
    floors.raise("links", mark(2, 20)).unwrap();
    assert_eq!(reader.mark("s1", "links").unwrap(), mark(2, 20));
}
