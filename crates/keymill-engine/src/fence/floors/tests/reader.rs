//! The reader of the floor file, as a SQLite transaction uses it.

use super::*;
use crate::store::floor_file::FloorReader;
use crate::store::floor_file::appender::Appender;

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

#[test]
fn a_reader_follows_a_log_that_was_compacted() {
    let data_dir = DataDir::new();
    let floors = data_dir.open();
    floors.raise("links", mark(1, 10)).unwrap();
    let mut reader = FloorReader::new(&data_dir.path);
    assert_eq!(reader.mark("s1", "links").unwrap(), mark(1, 10));
    Appender::new(data_dir.paths.clone()).compact().unwrap();
    floors.raise("links", mark(2, 20)).unwrap();
    assert_eq!(reader.mark("s1", "links").unwrap(), mark(2, 20));
}
