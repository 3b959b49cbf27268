//! Stores apart: a data directory belongs to one.

use super::*;
use crate::store::floor_file::appender::Appender;

#[test]
fn another_store_is_refused_by_name() {
    let data_dir = DataDir::new();
    let first = data_dir.open();
    assert!(first.check_store().unwrap().is_ok());
    first.raise("a", mark(1, 1)).unwrap();
    assert!(first.check_store().unwrap().is_ok());
    let second = Floors::open("s2".to_owned(), vec![data_dir.path.clone()]).unwrap();
    let refusal = second.check_store().unwrap().unwrap_err().to_string();
    assert!(refusal.contains("s1") && refusal.contains("s2"), "{refusal}");
    assert!(refusal.contains("floors.log") && !refusal.contains("floors.json"), "{refusal}");
    // The floors of both are kept, also when the log is compacted.
    second.raise("a", mark(9, 9)).unwrap();
    Appender::new(data_dir.paths.clone()).compact().unwrap();
    assert_eq!(data_dir.mark("a"), mark(1, 1));
    assert_eq!(second.of("a").unwrap().mark, mark(9, 9));
    assert!(first.check_store().unwrap().is_err());
}
