//! The checker: all keys that callers received, and whether one came twice.
//!
//! The figures are those of Jepsen's unique-ids checker. It is exact: keys are compared
//! whole, never by a hash. A key of up to 15 bytes takes 16 bytes here.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How many of the duplicated keys a report names.
const SAMPLES_MAX: usize = 16;
/// The longest key that fits into one word, with its length.
const SHORT_MAX: usize = 15;

/// Keys received.
#[derive(Debug, Default)]
pub struct Checker {
    short: Pile<u128>,
    long: Pile<Box<[u8]>>,
}

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Takes that were sent.
    pub attempted: u64,
    /// Takes that were answered with keys, completely.
    pub acknowledged: u64,
    /// Keys in those answers.
    pub keys: u64,
    /// Takes whose connection broke or timed out after they were sent.
    pub interrupted: u64,
    /// Complete keys at the beginning of answers that broke off; they count as received where
    /// duplicates are looked for, not in `keys`.
    pub partial_keys: u64,
    /// Takes that were answered with an error.
    pub refused: u64,
    /// Those by status and code.
    pub refusals: BTreeMap<String, u64>,
    /// Answers with fewer or more keys than asked for.
    pub miscounted: u64,
    /// Keys received more than once.
    pub duplicated: u64,
    /// Some of them, and how often each was received.
    pub samples: Vec<(String, u32)>,
    /// The lowest and the highest key received.
    pub range: Option<(String, String)>,
    /// Servers killed while takes were under way there.
    pub kills: u32,
    /// Servers paused while takes were under way there.
    pub pauses: u32,
    /// Servers stopped in order while takes were under way there.
    pub stops: u32,
    /// How often the store's server was killed.
    pub store_kills: u32,
    /// How long the callers were at work.
    pub time: Duration,
    /// What the nemesis did follows from this.
    pub seed: u64,
}

impl Checker {
    /// Takes in one key that a caller received.
    pub fn add(&mut self, key: &[u8]) {
        match pack(key) {
            Some(word) => self.short.entries.push(word),
            None => self.long.entries.push(key.into()),
        }
    }

    /// How many entries there are, the repeated ones too.
    pub fn len(&self) -> usize {
        self.short.entries.len() + self.long.entries.len()
    }

    /// Whether no key was received yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts the keys received more than once, and gives the first of them to `each` with
    /// their number of appearances.
    pub fn duplicates(&mut self, mut each: impl FnMut(&[u8], u32)) -> u64 {
        let short = self.short.repeated(|&word, times| {
            let (bytes, len) = unpack(word);
            each(&bytes[..len], times);
        });
        short + self.long.repeated(|key, times| each(key, times))
    }

    /// Completes a report with what was received.
    pub fn finish(&mut self, report: &mut Report) {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let mut samples = Vec::new();
        report.duplicated = self.duplicates(|key, times| {
            if samples.len() < SAMPLES_MAX {
                samples.push((text(key), times));
            }
        });
        report.samples = samples;
        let word_text = |&word: &u128| {
            let (bytes, len) = unpack(word);
            text(&bytes[..len])
        };
        let lowest = self.short.entries.first().map(word_text).into_iter();
        let lowest = lowest.chain(self.long.entries.first().map(|key| text(key))).min();
        let highest = self.short.entries.last().map(word_text).into_iter();
        let highest = highest.chain(self.long.entries.last().map(|key| text(key))).max();
        report.range = lowest.zip(highest);
    }
}

impl Report {
    /// Whether no key was received twice.
    pub fn is_valid(&self) -> bool {
        self.duplicated == 0
    }

    /// Adds what one caller counted.
    pub(crate) fn absorb(&mut self, caller: &Report) {
        self.attempted += caller.attempted;
        self.acknowledged += caller.acknowledged;
        self.keys += caller.keys;
        self.interrupted += caller.interrupted;
        self.partial_keys += caller.partial_keys;
        self.refused += caller.refused;
        self.miscounted += caller.miscounted;
        for (what, count) in &caller.refusals {
            *self.refusals.entry(what.clone()).or_default() += count;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<14} {value}");
        line("valid", &self.is_valid())?;
        line("attempted", &self.attempted)?;
        line("acknowledged", &self.acknowledged)?;
        line("keys", &self.keys)?;
        line("interrupted", &self.interrupted)?;
        line("partial keys", &self.partial_keys)?;
        line("refused", &self.refused)?;
        for (what, count) in &self.refusals {
            line("", &format_args!("{count} × {what}"))?;
        }
        line("miscounted", &self.miscounted)?;
        line("duplicated", &self.duplicated)?;
        for (key, times) in &self.samples {
            line("", &format_args!("{key} × {times}"))?;
        }
        if let Some((lowest, highest)) = &self.range {
            line("range", &format_args!("{lowest} … {highest}"))?;
        }
        line("kills", &self.kills)?;
        line("pauses", &self.pauses)?;
        line("stops", &self.stops)?;
        line("store kills", &self.store_kills)?;
        line("time", &format_args!("{:.1} s", self.time.as_secs_f64()))?;
        write!(f, "{:<14} {}", "seed", self.seed)
    }
}

#[derive(Debug)]
struct Pile<T> {
    entries: Vec<T>,
}

impl<T: Ord> Pile<T> {
    /// Counts the values that are there more than once.
    fn repeated(&mut self, mut each: impl FnMut(&T, u32)) -> u64 {
        // Stable sorting finds the run that is in order from the last time and merges into it.
        self.entries.sort();
        let runs = self.entries.chunk_by(|one, other| one == other);
        let mut count = 0;
        for run in runs.filter(|run| run.len() > 1) {
            count += 1;
            each(&run[0], u32::try_from(run.len()).unwrap_or(u32::MAX));
        }
        count
    }
}

impl<T> Default for Pile<T> {
    fn default() -> Pile<T> {
        Pile { entries: Vec::new() }
    }
}

/// A key and its length in one word, in the order of the keys.
fn pack(key: &[u8]) -> Option<u128> {
    let len = u8::try_from(key.len()).ok()?;
    let mut bytes = [0; SHORT_MAX + 1];
    bytes[..SHORT_MAX].get_mut(..key.len())?.copy_from_slice(key);
    bytes[SHORT_MAX] = len;
    Some(u128::from_be_bytes(bytes))
}

fn unpack(word: u128) -> ([u8; SHORT_MAX + 1], usize) {
    let bytes = word.to_be_bytes();
    (bytes, usize::from(bytes[SHORT_MAX]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_received_twice_is_counted_once_and_named() {
        check(&["a", "b", "a", "c", "b", "a"], &[("a", 3), ("b", 2)]);
    }

    #[test]
    fn keys_that_share_a_beginning_are_different() {
        check(&["a", "a\0", "", "a\0\0"], &[]);
    }

    #[test]
    fn keys_of_every_length_are_compared_whole() {
        let long = "x".repeat(40);
        let keys = [
            "0123456789abcde",
            "0123456789abcdef",
            "0123456789abcdeg",
            "0123456789abcdef",
            &long,
            &long,
            &long[1..],
        ];
        check(&keys, &[("0123456789abcdef", 2), (&long, 2)]);
    }

    #[test]
    fn what_comes_after_a_look_is_compared_with_what_came_before() {
        let mut checker = Checker::default();
        checker.add(b"one");
        checker.add(b"two");
        assert_eq!(checker.duplicates(|_, _| {}), 0);
        checker.add(b"one");
        assert_eq!(checker.duplicates(|_, _| {}), 1);
    }

    #[track_caller]
    fn check(keys: &[&str], expected: &[(&str, u32)]) {
        let mut checker = Checker::default();
        for key in keys {
            checker.add(key.as_bytes());
        }
        let mut report = Report::default();
        checker.finish(&mut report);
        let expected: Vec<_> =
            expected.iter().map(|&(key, times)| (key.to_owned(), times)).collect();
        assert_eq!(report.samples, expected);
        assert_eq!(report.duplicated, expected.len() as u64);
        let range = report.range.expect("keys were received");
        let texts = || keys.iter().map(|key| (*key).to_owned());
        assert_eq!(Some(range), texts().min().zip(texts().max()));
    }
}
