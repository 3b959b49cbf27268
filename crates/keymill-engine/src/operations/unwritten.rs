//! Keys that were taken and are not written yet: the answer to a large take, before it is text.
//!
//! `take_later` makes one; a front writes it piece by piece, as its client reads. How many keys
//! and how many bytes it is was counted before, so that the front can promise both.
//!
//! # Invariants
//!
//! - An ordinal is taken off before its key is written, so that a key that was written never comes
//!   back. What is left when this is dropped does, unless it was on record.
//! - What decides which keys are written (generations, skips, blocklist) is what it was right after
//!   the draw, in the count and in the text alike.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;
use keymill_core::{Blocklist, Generations};

use super::Space;
use super::source::Source;
use super::turn::turn;
use crate::source::leased::RunOut;
use crate::source::uuids::{UUID_LEN, Uuids};
use crate::space::rules::Rules;

/// How many ordinals are looked at in a turn: about a tenth of a millisecond.
const PIECE: u64 = 1_024;

/// Keys that were taken and are not written yet.
///
/// Deliberately not `Clone`: two copies would write the same keys.
#[derive(Debug)]
pub struct Unwritten {
    content: Content,
    count: u32,
    bytes: u64,
    key_len_max: usize,
    expires_at: Option<Timestamp>,
}

/// The rest of a take cannot be written: an advance has overtaken the lease that it was drawn from,
/// so that others may be given the same keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the keyspace was advanced past these keys; take others")]
pub struct Withdrawn;

#[derive(Debug)]
enum Content {
    Numbers(Runs),
    Uuids(Uuids),
    /// One a line, from `at` on.
    Texts {
        lines: Vec<u8>,
        at: usize,
    },
}

/// Runs that were drawn, in the order of the draws. What is left of them goes back to their mill.
#[derive(Debug, Default)]
struct Runs(VecDeque<Run>);

/// A run of ordinals or IDs, and what decides which of them become which keys.
#[derive(Debug)]
pub(super) struct Run {
    /// Where ordinals go back to. IDs do not: there is always more time.
    out: Option<RunOut>,
    ordinals: Range<u64>,
    generations: Arc<Generations>,
    skips: Box<[u64]>,
    blocklist: Arc<Blocklist>,
}

impl Unwritten {
    /// Of what is drawn in runs: none yet.
    pub(super) fn of_numbers() -> Unwritten {
        Unwritten::new(Content::Numbers(Runs::default()), 0, 0, 0)
    }

    pub(super) fn of_uuids(uuids: Uuids, count: u32) -> Unwritten {
        let bytes = u64::from(count) * UUID_LEN as u64;
        Unwritten::new(Content::Uuids(uuids), count, bytes, UUID_LEN)
    }

    /// Of keys that are there already, each with the end of its line.
    pub(super) fn of_texts(lines: Vec<u8>, count: u32, expires_at: Option<Timestamp>) -> Unwritten {
        let bytes = lines.len() as u64 - u64::from(count);
        let key_len_max = lines.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap_or(0);
        let unwritten = Unwritten::new(Content::Texts { lines, at: 0 }, count, bytes, key_len_max);
        Unwritten { expires_at, ..unwritten }
    }

    fn new(content: Content, count: u32, bytes: u64, key_len_max: usize) -> Unwritten {
        Unwritten { content, count, bytes, key_len_max, expires_at: None }
    }

    /// Adds a run, and says how many keys it has. One that has none stays spent, so that the next
    /// take gets further. Others get their turn between its pieces.
    pub(super) async fn add(&mut self, run: Run) -> u32 {
        let Content::Numbers(Runs(runs)) = &mut self.content else {
            unreachable!("only numbers come in runs");
        };
        // Before the first wait: a take that is dropped while it waits gives it back.
        runs.push_back(run);
        let run = runs.back().expect("it was just added");
        let (count, bytes) = run.measure().await;
        self.key_len_max = self.key_len_max.max(run.generations.text_len_max());
        self.count += count;
        self.bytes += bytes;
        if count == 0
            && let Some(run) = runs.pop_back()
        {
            run.end();
        }
        count
    }

    /// How many keys are left to write.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How many bytes they have in all.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the first of them expires, where keys do.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    /// The length of the longest.
    pub fn key_len_max(&self) -> usize {
        self.key_len_max
    }

    /// How much memory it takes that is as large as the keys themselves.
    pub fn text_in_memory(&self) -> usize {
        if let Content::Texts { lines, .. } = &self.content { lines.capacity() } else { 0 }
    }

    /// Gives the next keys to `each`: at most `count`, and fewer where some are left out.
    pub fn write(&mut self, count: u32, mut each: impl FnMut(&[u8])) -> Result<(), Withdrawn> {
        let (mut written, mut bytes) = (0, 0);
        let mut each = |key: &[u8]| {
            each(key);
            written += 1;
            bytes += key.len() as u64;
        };
        let count = count.min(self.count);
        match &mut self.content {
            Content::Uuids(uuids) => uuids.make(count, each),
            Content::Texts { lines, at } => {
                for key in lines[*at..].split(|byte| *byte == b'\n').take(count as usize) {
                    each(key);
                    *at += key.len() + 1;
                }
            }
            Content::Numbers(runs) => runs.write(count.into(), &mut each)?,
        }
        self.count -= written;
        self.bytes -= bytes;
        if self.count == 0
            && let Content::Numbers(runs) = &mut self.content
        {
            runs.spend_rest();
        }
        Ok(())
    }
}

impl Runs {
    /// Gives the keys of the next ordinals to `each`, of one run at most.
    fn write(&mut self, count: u64, each: impl FnMut(&[u8])) -> Result<(), Withdrawn> {
        let Some(run) = self.0.front_mut() else {
            // Counted and written by the same rules, so there is as much of both.
            return if count == 0 { Ok(()) } else { Err(Withdrawn) };
        };
        if run.out.as_ref().is_some_and(|out| !out.is_out()) {
            return Err(Withdrawn);
        }
        let end = run.ordinals.end.min(run.ordinals.start.saturating_add(count));
        let ordinals = run.ordinals.start..end;
        // From here on they are gone, whatever happens to their text.
        run.ordinals.start = end;
        run.write(ordinals, each);
        if run.ordinals.is_empty()
            && let Some(run) = self.0.pop_front()
        {
            run.end();
        }
        Ok(())
    }

    /// Ends what is left behind the last key: it was looked at and makes none.
    fn spend_rest(&mut self) {
        self.0.drain(..).for_each(Run::end);
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        // The last run first, so that what was drawn first is drawn again first.
        for Run { out, ordinals, .. } in self.0.drain(..).rev() {
            if let Some(out) = out {
                out.take_in(ordinals);
            }
        }
    }
}

impl Space {
    /// What a draw of ordinals has to know from before, for [`Run::new`].
    pub(super) fn discards(&self) -> u64 {
        match &self.source {
            Source::Leased(mill) => mill.discards(),
            _ => 0,
        }
    }
}

impl Run {
    /// What was just drawn; `discards` is what the space said before. `None` where it must not be used.
    pub(super) fn new(space: &Space, ordinals: Range<u64>, discards: u64) -> Option<Run> {
        let out = match &space.source {
            Source::Leased(mill) => Some(RunOut::of(mill, &ordinals, discards)?),
            _ => None,
        };
        Some(Run {
            out,
            skips: space.codec.skips().within(&ordinals),
            ordinals,
            // After the draw: it may be the first of a new generation.
            generations: space.generations_now(),
            blocklist: space.blocklist.load_full(),
        })
    }

    /// How many keys it has, and how many bytes these have.
    async fn measure(&self) -> (u32, u64) {
        let Range { mut start, end } = self.ordinals;
        if self.is_regular() {
            let count = end - start - self.skips.len() as u64;
            let bytes = count * self.generations.text_len_max() as u64;
            return (u32::try_from(count).expect("no more than were asked for"), bytes);
        }
        let (mut count, mut bytes) = (0, 0);
        while start < end {
            turn().await;
            let piece = start..end.min(start.saturating_add(PIECE));
            start = piece.end;
            self.write(piece, |key| {
                count += 1;
                bytes += key.len() as u64;
            });
        }
        (count, bytes)
    }

    /// Whether every ordinal but the skips has a key, and all keys have the same length.
    fn is_regular(&self) -> bool {
        let fixed_length = self.generations.count() == 1 && self.generations.shape().length() > 0;
        fixed_length && self.blocklist.is_empty()
    }

    fn write(&self, ordinals: Range<u64>, mut each: impl FnMut(&[u8])) {
        let Run { generations, skips, blocklist, .. } = self;
        Rules { generations, skips, blocklist }.keys(ordinals, |_, key| each(key));
    }

    /// Forgets what is left of it: it is written to its end, or stays spent.
    fn end(self) {
        if let Some(out) = self.out {
            out.end();
        }
    }
}
