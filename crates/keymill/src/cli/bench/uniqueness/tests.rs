use std::collections::HashMap;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// So little that every few keys become a run.
const TINY: usize = 300;

#[test]
fn keys_in_memory_and_on_disk_are_counted_alike() {
    let keys: Vec<String> = (0..5_000).map(|number| format!("{:07}", number % 4_321)).collect();
    for memory in [2_000, 10_000, 256 << 20] {
        let counted = count(&keys, memory, 4).unwrap();
        assert_eq!((counted.keys, counted.unique), (5_000, 4_321), "with {memory} bytes");
        assert_eq!(counted.samples.len(), SAMPLES_MAX);
        let times = |sample: &Duplicate| (sample.key.len(), sample.times);
        assert!(counted.samples.iter().all(|sample| times(sample) == (7, 2)), "{counted:?}");
    }
}

/// A hash of keys would spread these; a sort must not care.
#[test]
fn one_key_again_and_again_is_counted() {
    let keys = vec!["same".to_owned(); 1_000];
    let counted = count(&keys, TINY, 3).unwrap();
    let sample = Duplicate { key: "same".to_owned(), times: 1_000 };
    assert_eq!(counted, Counted { keys: 1_000, unique: 1, samples: vec![sample] });
}

#[test]
fn nothing_is_counted_as_nothing() {
    assert_eq!(count(&[], TINY, 3), Ok(Counted::default()));
}

#[test]
fn all_keys_are_written_to_the_file() {
    let (folder, keys) = (tempfile::tempdir().unwrap(), ["a", "bb", "a", "ccc"].map(str::to_owned));
    let file = folder.path().join("keys.txt");
    let settings = Settings { keys_out: Some(file.clone()), ..settings(folder.path(), TINY, 3) };
    run(&keys, settings).unwrap();
    let written = std::fs::read_to_string(file).unwrap();
    let mut written: Vec<&str> = written.lines().collect();
    written.sort_unstable();
    assert_eq!(written, ["a", "a", "bb", "ccc"]);
}

#[test]
fn a_folder_that_cannot_be_written_to_is_refused_before_anything_is_taken() {
    let folder = Path::new("/nowhere/at/all");
    let refused = Check::start(settings(folder, TINY, 3)).unwrap_err().to_string();
    assert!(refused.contains("/nowhere/at/all"), "{refused}");
}

#[test]
fn what_will_not_fit_on_the_disk_is_refused_at_the_first_key() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { planned: Some(u64::MAX / 64), ..settings(folder.path(), TINY, 3) };
    let refused = run(&["key".to_owned()], settings).unwrap_err();
    assert!(refused.contains("--temp-dir"), "{refused}");
}

#[test]
fn a_merge_can_be_interrupted() {
    let keys: Vec<String> = (0..200_000).map(|number| format!("{number:07}")).collect();
    let folder = tempfile::tempdir().unwrap();
    let check = Check::start(settings(folder.path(), 100_000, 256)).unwrap();
    check.progress.is_cancelled.store(true, Ordering::Relaxed);
    assert_eq!(send(&keys, check), Err("it was interrupted".to_owned()));
}

#[test]
fn keys_that_cannot_be_written_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<String> = (0..200_000).map(|number| format!("{number:07}")).collect();
    let keys_out = Some(PathBuf::from("/dev/full"));
    let refused =
        run(&keys, Settings { keys_out, ..settings(folder.path(), TINY, 3) }).unwrap_err();
    assert!(refused.contains("cannot write keys to /dev/full"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the keys are, whatever their lengths, in as many runs and passes as it takes.
    #[test]
    fn as_many_are_unique_as_a_set_finds(
        keys in prop::collection::vec("[a-c]{1,3}|[A-Za-z0-9_-]{9}|[a-z]{20}|[ab]{40,44}|[01]{128}", 0..400),
        fan_in in 2_usize..5,
    ) {
        let mut times: HashMap<&str, u64> = HashMap::new();
        keys.iter().for_each(|key| *times.entry(key).or_default() += 1);
        let counted = count(&keys, TINY, fan_in).unwrap();
        prop_assert_eq!(counted.keys, keys.len() as u64);
        prop_assert_eq!(counted.unique, times.len() as u64);
        let repeated = times.values().filter(|times| **times > 1).count();
        prop_assert_eq!(counted.samples.len(), repeated.min(SAMPLES_MAX));
        for sample in &counted.samples {
            prop_assert_eq!(Some(&sample.times), times.get(sample.key.as_str()));
        }
    }
}

fn settings(folder: &Path, memory: usize, fan_in: usize) -> Settings {
    Settings { fan_in, ..Settings::new(folder.to_owned(), memory) }
}

fn count(keys: &[String], memory: usize, fan_in: usize) -> Result<Counted, String> {
    let folder = tempfile::tempdir().unwrap();
    run(keys, settings(folder.path(), memory, fan_in))
}

fn run(keys: &[String], settings: Settings) -> Result<Counted, String> {
    send(keys, Check::start(settings).unwrap())
}

/// Sends keys, a few at a time.
fn send(keys: &[String], check: Check) -> Result<Counted, String> {
    let Check { chunks, verdict, .. } = check;
    for some in keys.chunk_by(|one, other| one.len() == other.len()) {
        for some in some.chunks(7) {
            let bytes = some.concat().into_bytes();
            // Where it has given up, its verdict says why.
            let _ = chunks.blocking_send(Chunk { key_len: some[0].len(), bytes });
        }
    }
    drop(chunks);
    verdict.join().unwrap()
}
