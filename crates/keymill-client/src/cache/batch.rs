//! Batches: keys in memory, and handing them out.
//!
//! `refill` appends a batch for every fetch; takes draw from the oldest that has keys. Nothing here does I/O, blocks or
//! locks, and a draw allocates nothing but an unusually long key.
//!
//! # Invariants
//!
//! - A key is drawn at most once: the counter of its batch only grows.
//! - Only one task appends. Batches are drawn in the order in which they were appended.
//! - A batch that was left behind is never drawn from again, but by a take that had found it before. What is left in it is
//!   lost, never handed out again.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use tokio::time::Instant;

use crate::key::Key;

/// A mark that is never reached.
const NEVER: u64 = u64::MAX;

/// The batches that are not used up, each pointing to the next.
#[derive(Debug)]
pub(super) struct Chain {
    current: ArcSwap<Batch>,
}

/// The keys of one fetch.
///
/// Deliberately not `Clone`: two copies would hand out the same keys.
#[derive(Debug)]
pub(super) struct Batch {
    keys: Packed,
    /// From then on, its keys are not handed out.
    expires_at: Instant,
    /// From then on, they should be replaced.
    fresh_until: Instant,
    drawn: Padded,
    /// The draw that wakes the refill, by its number.
    mark: AtomicU64,
    next: OnceLock<Arc<Batch>>,
}

/// Keys behind each other in one text.
#[derive(Debug, Default)]
pub(super) struct Packed {
    text: String,
    count: usize,
    /// The length of every key, as long as they all have the same.
    len: usize,
    /// Where each key ends, if not.
    ends: Vec<u32>,
}

/// The counter has a cache line of its own: it is the one word that every draw writes.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

impl Chain {
    /// Without keys.
    pub(super) fn new() -> Chain {
        Chain { current: ArcSwap::new(Batch::new(Packed::default(), Instant::now())) }
    }

    /// Draws a key, and says whether the refill should be woken.
    #[inline]
    pub(super) fn draw(&self, now: Instant) -> Option<(Key, bool)> {
        let mut batch = self.current.load();
        loop {
            if let Some(drawn) = batch.draw(now) {
                return Some(drawn);
            }
            let next = batch.next.get()?.clone();
            // Whoever is first moves on, and the others follow.
            self.current.compare_and_swap(&batch, next);
            batch = self.current.load();
        }
    }

    /// How many keys can be drawn.
    pub(super) fn left(&self, now: Instant) -> u64 {
        self.batches().iter().map(|batch| batch.left(now)).sum()
    }

    /// The batches that may have keys, the oldest first. There is always one.
    pub(super) fn batches(&self) -> Vec<Arc<Batch>> {
        let mut batches = vec![self.current.load_full()];
        while let Some(next) = batches.last().and_then(|last| last.next.get()) {
            batches.push(next.clone());
        }
        batches
    }

    /// Appends keys. Only `refill` calls this, one call at a time.
    pub(super) fn append(&self, keys: Packed, expires_at: Instant) -> Arc<Batch> {
        let batch = Batch::new(keys, expires_at);
        let batches = self.batches();
        let last = batches.last().expect("there is always one");
        last.next.set(batch.clone()).expect("nobody else appends");
        batch
    }

    /// Drops all keys. Only `refill` calls this.
    pub(super) fn clear(&self) {
        self.current.store(Batch::new(Packed::default(), Instant::now()));
    }
}

impl Batch {
    fn new(keys: Packed, expires_at: Instant) -> Arc<Batch> {
        let (drawn, mark, next) = (Padded::default(), AtomicU64::new(NEVER), OnceLock::new());
        let now = Instant::now();
        // The last tenth of its life is for replacing it.
        let fresh_until = now + expires_at.saturating_duration_since(now) / 10 * 9;
        Arc::new(Batch { keys, expires_at, fresh_until, drawn, mark, next })
    }

    #[inline]
    fn draw(&self, now: Instant) -> Option<(Key, bool)> {
        let count = self.keys.count as u64;
        // Looked at first: callers who find nothing, again and again, do not write.
        if now >= self.expires_at || self.drawn.0.load(Ordering::Relaxed) >= count {
            return None;
        }
        let number = self.drawn.0.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return None;
        }
        let is_low = number + 1 == count || number == self.mark.load(Ordering::Relaxed);
        let place = usize::try_from(number).expect("it is below a count of keys in memory");
        Some((Key::new(self.keys.get(place)), is_low))
    }

    pub(super) fn fresh_until(&self) -> Instant {
        self.fresh_until
    }

    /// How many of its keys can be drawn and need not be replaced.
    pub(super) fn fresh(&self, now: Instant) -> u64 {
        if now >= self.fresh_until { 0 } else { self.left(now) }
    }

    /// How many of its keys were drawn.
    pub(super) fn drawn(&self) -> u64 {
        // Draws that came too late have counted, too.
        self.drawn.0.load(Ordering::Relaxed).min(self.keys.count as u64)
    }

    /// How many of its keys can be drawn.
    pub(super) fn left(&self, now: Instant) -> u64 {
        if now >= self.expires_at { 0 } else { self.keys.count as u64 - self.drawn() }
    }

    /// Wakes the refill by the draw that has `spare` draws before it; with `None`, only by the last one.
    pub(super) fn set_mark(&self, spare: Option<u64>) {
        let mark = spare.map_or(NEVER, |spare| self.drawn() + spare);
        self.mark.store(mark, Ordering::Relaxed);
    }
}

impl Packed {
    pub(super) fn push(&mut self, key: &str) {
        if self.count == 0 {
            self.len = key.len();
        } else if self.ends.is_empty() && key.len() != self.len {
            // The first key of another length.
            self.ends = (1..=self.count).map(|number| as_end(number * self.len)).collect();
        }
        self.text.push_str(key);
        self.count += 1;
        if !self.ends.is_empty() {
            self.ends.push(as_end(self.text.len()));
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    #[inline]
    fn get(&self, place: usize) -> &str {
        if self.ends.is_empty() {
            return &self.text[place * self.len..(place + 1) * self.len];
        }
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.text[start as usize..self.ends[place] as usize]
    }
}

impl FromIterator<Key> for Packed {
    fn from_iter<T: IntoIterator<Item = Key>>(keys: T) -> Packed {
        let mut packed = Packed::default();
        keys.into_iter().for_each(|key| packed.push(&key));
        packed
    }
}

/// Answers are smaller than 64 MB.
fn as_end(end: usize) -> u32 {
    u32::try_from(end).expect("the text is as large as an answer at most")
}

impl<'de> serde::Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Packed, D::Error> {
        struct Keys;

        impl<'de> Visitor<'de> for Keys {
            type Value = Packed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of keys")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut keys: A) -> Result<Packed, A::Error> {
                let mut packed = Packed::default();
                while keys.next_element_seed(Next(&mut packed))?.is_some() {}
                packed.text.shrink_to_fit();
                Ok(packed)
            }
        }

        deserializer.deserialize_seq(Keys)
    }
}

/// Puts the next key behind the others, without making a string of it.
struct Next<'a>(&'a mut Packed);

impl<'de> DeserializeSeed<'de> for Next<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Next<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<(), E> {
        self.0.push(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    fn packed(keys: &[&str]) -> Packed {
        serde_json::from_str(&serde_json::to_string(keys).unwrap()).unwrap()
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    fn drain(chain: &Chain) -> Vec<String> {
        std::iter::from_fn(|| chain.draw(Instant::now())).map(|(key, _)| key.into()).collect()
    }

    #[test]
    fn keys_of_the_same_length_and_of_different_ones_come_out_as_they_went_in() {
        for keys in
            [&["abc", "def", "ghi"][..], &["8", "9", "10", "11", "100"], &["", "a"], &["x"], &[]]
        {
            let chain = Chain::new();
            chain.append(packed(keys), later());
            assert_eq!(chain.left(Instant::now()), keys.len() as u64);
            assert_eq!(drain(&chain), keys);
            assert_eq!(chain.left(Instant::now()), 0);
        }
    }

    #[test]
    fn batches_are_drawn_in_order_and_more_can_follow_an_empty_one() {
        let chain = Chain::new();
        assert!(drain(&chain).is_empty());
        chain.append(packed(&["a", "b"]), later());
        chain.append(packed(&["cc"]), later());
        assert_eq!(chain.left(Instant::now()), 3);
        assert_eq!(drain(&chain), ["a", "b", "cc"]);
        chain.append(packed(&["d"]), later());
        assert_eq!(drain(&chain), ["d"]);
        chain.append(packed(&["e"]), later());
        chain.clear();
        assert!(drain(&chain).is_empty());
        chain.append(packed(&["f"]), later());
        assert_eq!(drain(&chain), ["f"]);
    }

    #[test]
    fn expired_keys_are_passed_over() {
        let (chain, now) = (Chain::new(), Instant::now());
        chain.append(packed(&["a", "b"]), now + Duration::from_secs(1));
        chain.append(packed(&["c"]), now + Duration::from_secs(9));
        assert_eq!(chain.draw(now).unwrap().0, "a");
        assert_eq!(chain.left(now + Duration::from_secs(1)), 1);
        assert_eq!(chain.draw(now + Duration::from_secs(1)).unwrap().0, "c");
        assert!(chain.draw(now).is_none(), "what was left behind is gone");
    }

    #[test]
    fn the_refill_is_woken_at_the_mark_and_by_the_last_key() {
        let (chain, now) = (Chain::new(), Instant::now());
        let batch = chain.append(packed(&["a", "b", "c", "d", "e"]), later());
        chain.draw(now).unwrap();
        batch.set_mark(Some(1));
        let woken: Vec<bool> = (0..4).map(|_| chain.draw(now).unwrap().1).collect();
        assert_eq!(woken, [false, true, false, true]);
        assert_eq!((batch.drawn(), batch.left(now)), (5, 0));
    }

    #[test]
    fn threads_that_draw_at_once_never_get_the_same_key() {
        const THREADS: usize = 4;
        const BATCHES: usize = 200;
        let chain = Chain::new();
        let drawn: Vec<Vec<String>> = std::thread::scope(|scope| {
            let draw = || {
                let mut keys = Vec::new();
                while keys.last().is_none_or(|last: &String| last != "end") {
                    keys.extend(chain.draw(Instant::now()).map(|(key, _)| String::from(key)));
                }
                keys
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(draw)).collect();
            for batch in 0..BATCHES {
                let mut keys = Packed::default();
                (0..batch % 40 + 1).for_each(|key| keys.push(&format!("{batch}-{key}")));
                chain.append(keys, later());
            }
            // One for each thread, which stops there.
            chain.append(packed(&["end"; THREADS]), later());
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let all: Vec<&String> = drawn.iter().flatten().filter(|key| *key != "end").collect();
        let different: HashSet<&&String> = all.iter().collect();
        assert_eq!(all.len(), (0..BATCHES).map(|batch| batch % 40 + 1).sum::<usize>());
        assert_eq!(different.len(), all.len());
    }
}
