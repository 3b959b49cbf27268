//! The floor of the token list, among those of spaces.

use super::*;
use crate::store::floor_file::appender::Appender;

#[test]
fn the_token_list_is_kept_and_is_no_space() {
    let data_dir = DataDir::new();
    let floors = data_dir.open();
    floors.raise("a", mark(1, 1)).unwrap();
    floors.raise(TOKENS, mark(7, 0)).unwrap();
    Appender::new(data_dir.paths.clone()).compact().unwrap();
    for floors in [floors, data_dir.open()] {
        assert_eq!(floors.of(TOKENS).unwrap().mark, mark(7, 0));
        assert_eq!(floors.all().unwrap(), BTreeMap::from([("a".to_owned(), mark(1, 1))]));
        assert!(!floors.had_other_tokens(), "they are its own");
    }
}

#[test]
fn tokens_of_a_store_that_was_there_before_are_not_forgotten() {
    let data_dir = DataDir::new();
    let other = || Floors::open("s2".to_owned(), vec![data_dir.path.clone()]).unwrap();
    let first = data_dir.open();
    first.raise("a", mark(1, 1)).unwrap();
    assert!(!other().had_other_tokens(), "it had none");
    first.raise(TOKENS, mark(1, 0)).unwrap();
    Appender::new(data_dir.paths.clone()).compact().unwrap();
    let other = other();
    assert!(other.had_other_tokens());
    assert_eq!(other.of(TOKENS).unwrap().mark, Mark::default());
}
