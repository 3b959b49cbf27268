//! Logs that cannot be written, are damaged, or are gone.

use super::*;
use crate::store::floor_file::log::record;

#[test]
fn a_write_that_fails_fails_all_its_raises_and_raises_nothing() {
    let data_dir = DataDir::new();
    let floors = data_dir.open();
    floors.raise("a", mark(1, 10)).unwrap();
    let held = FileLock::take(&data_dir.paths.lock, Duration::ZERO).unwrap();
    let (answer, answered) = mpsc::channel();
    for space in ["a", "b", "c"] {
        let answer = answer.clone();
        let marks = vec![(space.to_owned(), mark(2, 20))];
        floors.ask(marks, Box::new(move |done| answer.send(done).unwrap()));
    }
    fs::remove_file(&data_dir.paths.log).unwrap();
    fs::create_dir(&data_dir.paths.log).unwrap();
    drop(held);
    for _ in 0..3 {
        let error = answered.recv().unwrap().unwrap_err().to_string();
        assert!(error.contains("floors.log"), "{error}");
    }
    assert!(floors.of("a").is_err());
    fs::remove_dir(&data_dir.paths.log).unwrap();
    assert_eq!(floors.of("a").unwrap().mark, mark(1, 10));
    assert_eq!(floors.of("b").unwrap().mark, Mark::default());
    floors.raise("a", mark(3, 30)).unwrap();
    assert_eq!(data_dir.mark("a"), mark(3, 30));
}

#[test]
fn a_log_that_cannot_be_made_fails_the_raise() {
    let data_dir = DataDir::new();
    let floors = data_dir.open();
    fs::create_dir(&data_dir.paths.log_new).unwrap();
    let error = floors.raise("a", mark(1, 10)).unwrap_err().to_string();
    assert!(error.contains("floors.log.new"), "{error}");
    assert_eq!(floors.of("a").unwrap().mark, Mark::default());
}

#[test]
fn an_unfinished_record_is_not_read_until_it_is_complete() {
    let data_dir = DataDir::new();
    let floors = data_dir.open();
    floors.raise("a", mark(1, 10)).unwrap();
    let line = record("s1", &[("a", mark(9, 90))]);
    for (from, to) in [(0, 30), (30, line.len() - 1)] {
        data_dir.append(&line.as_bytes()[from..to]);
        assert_eq!(floors.of("a").unwrap().mark, mark(1, 10));
        assert_eq!(data_dir.mark("a"), mark(1, 10));
    }
    data_dir.append(b"\n");
    assert_eq!(floors.of("a").unwrap().mark, mark(9, 90));
    floors.raise("a", mark(10, 90)).unwrap();
    assert_eq!((data_dir.mark("a"), data_dir.log().lines().count()), (mark(10, 90), 4));
}

#[test]
fn an_unfinished_record_is_overwritten_by_the_next_raise() {
    let data_dir = DataDir::new();
    data_dir.open().raise("a", mark(1, 10)).unwrap();
    let whole = data_dir.log();
    data_dir.append(&record("s1", &[("a", mark(9, 90))]).as_bytes()[..30]);
    data_dir.open().raise("a", mark(2, 20)).unwrap();
    assert_eq!(data_dir.log(), whole + &record("s1", &[("a", mark(2, 20))]));
    assert_eq!(data_dir.mark("a"), mark(2, 20));
}

#[test]
fn a_damaged_record_is_named_by_file_and_line_and_not_passed_over() {
    let data_dir = DataDir::new();
    let floors = data_dir.open();
    for revision in 1..=3 {
        floors.raise("a", mark(revision, 10)).unwrap();
    }
    let whole = data_dir.log();
    let second = whole.lines().nth(2).unwrap();
    data_dir.write_log(&whole.replace(second, &second.replace("\"revision\":2", "\"revision\":8")));
    let error = data_dir.try_open().unwrap_err().to_string();
    assert!(error.contains("floors.log") && error.contains("line 3"), "{error}");
    // Whoever has read it before notices nothing, because only what is new is read.
    assert_eq!(floors.of("a").unwrap().mark, mark(3, 10));
    // What the message says leads out.
    data_dir.write_log(&whole.replace(second, ""));
    assert_eq!(data_dir.mark("a"), mark(3, 10));
}

#[test]
fn a_log_that_was_removed_comes_back_with_the_floors_of_all_spaces() {
    let data_dir = DataDir::new();
    let floors = data_dir.open();
    floors.raise("a", mark(3, 30)).unwrap();
    floors.raise("b", mark(4, 40)).unwrap();
    fs::remove_file(&data_dir.paths.log).unwrap();
    floors.raise("b", mark(5, 50)).unwrap();
    assert_eq!((data_dir.mark("a"), data_dir.mark("b")), (mark(3, 30), mark(5, 50)));
}
