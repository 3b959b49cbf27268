//! Compaction: a shorter log that says the same.

use super::*;
use crate::store::floor_file::appender::Appender;

#[test]
fn what_a_compaction_wrote_cannot_be_an_unfinished_record() {
    let data_dir = DataDir::new();
    data_dir
        .open()
        .raise_all(vec![("a".to_owned(), mark(1, 1)), ("b".to_owned(), mark(2, 2))])
        .unwrap();
    Appender::new(data_dir.paths.clone()).compact().unwrap();
    let whole = data_dir.log();
    assert_eq!(whole.lines().count(), 3);
    let last = whole.lines().last().unwrap().len() + 1;
    for cut in [1, 10, last] {
        data_dir.write_log(&whole[..whole.len() - cut]);
        let error = data_dir.try_open().unwrap_err().to_string();
        assert!(error.contains("line 3"), "{cut} cut off: {error}");
    }
    for strange in ["", "\n", "a log of something else\n"] {
        data_dir.write_log(strange);
        let error = data_dir.try_open().unwrap_err().to_string();
        assert!(error.contains("not a floor file"), "{error}");
    }
}

#[test]
fn compaction_loses_nothing_of_two_writers_at_once() {
    const ROUNDS: u64 = 12;
    const SPACES: u64 = 200;
    let data_dir = DataDir::new();
    let watching = data_dir.open();
    std::thread::scope(|scope| {
        for writer in ["one", "two"] {
            let floors = data_dir.open();
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
    for floors in [watching, data_dir.open()] {
        let all = floors.all().unwrap();
        assert_eq!(all.len() as u64, 2 * SPACES);
        for (space, found) in all {
            let number = space.split('-').nth(1).unwrap().parse().unwrap();
            assert_eq!(found, mark(ROUNDS, number), "{space}");
        }
    }
    let log = data_dir.log();
    assert!(!log.starts_with(r#"{"floors":1,"lines":0}"#), "it was never compacted");
    let compacted = fs::metadata(&data_dir.paths.log).unwrap().len();
    assert!(compacted < 150_000, "{compacted} bytes");
    assert!(!data_dir.paths.log_new.exists());
}
