//! The floor file of earlier versions.

use super::*;
use crate::store::floor_file::log::FileContent;

#[test]
fn the_floors_of_an_earlier_version_count() {
    let data_dir = DataDir::new();
    let write_old = |revision: u64| {
        let text = format!(r#"{{"s1":{{"links":{{"revision":{revision},"next":500}}}}}}"#);
        let new = data_dir.path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &data_dir.path).unwrap();
    };
    write_old(7);
    let floors = data_dir.open();
    assert_eq!(floors.of("links").unwrap().mark, mark(7, 500));
    // One that runs on beside this one is heard.
    write_old(8);
    assert_eq!(floors.of("links").unwrap().mark, mark(8, 500));
    // The first log takes them in, and from then on does not need the old file.
    floors.raise("orders", mark(1, 1)).unwrap();
    fs::remove_file(&data_dir.path).unwrap();
    assert_eq!(data_dir.mark("links"), mark(8, 500));
    assert_eq!(floors.of("links").unwrap().mark, mark(8, 500));
}

#[test]
fn an_earlier_version_that_comes_back_finds_what_was_raised() {
    let data_dir = DataDir::new();
    fs::write(&data_dir.path, r#"{"s1":{"links":{"revision":7,"next":500}}}"#).unwrap();
    let floors = data_dir.open();
    floors.raise("links", mark(9, 900)).unwrap();
    drop(floors);
    let old: FileContent =
        serde_json::from_str(&fs::read_to_string(&data_dir.path).unwrap()).unwrap();
    assert_eq!(old["s1"]["links"], mark(9, 900));
    // Where there was none, none is made.
    let other = DataDir::new();
    other.open().raise("links", mark(1, 1)).unwrap();
    assert!(!other.path.exists());
}

#[test]
fn a_broken_file_of_an_earlier_version_is_named_and_not_taken_for_an_empty_one() {
    let data_dir = DataDir::new();
    fs::write(&data_dir.path, "{").unwrap();
    let error = data_dir.try_open().unwrap_err().to_string();
    assert!(error.contains("floors.json") && error.contains("not a floor file"), "{error}");
}
