//! How a snowflake space counts time and workers: what its stores and its instances agree on.

use std::ops::Range;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use keymill_core::{Alphabet, Layout};

/// Where time begins where nothing else is said: 2025-01-01T00:00:00Z. For good, since IDs are made
/// with it.
pub(super) const EPOCH: Timestamp = Timestamp::constant(1_735_689_600, 0);

/// The digits of plain numbers.
pub(super) const DECIMAL: &str = "0123456789";

/// How long before its timestamps end a space warns: five years.
const WARN_BEFORE: SignedDuration = SignedDuration::from_hours(5 * 365 * 24);

/// Ticks of time since an epoch, and workers beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    /// Where time begins, in milliseconds since 1970.
    pub epoch_ms: i64,
    /// The bits of time, worker and sequence.
    pub layout: Layout,
}

impl Timeline {
    /// How many ticks there are: none can be written beyond them.
    pub fn ticks(self) -> u64 {
        self.layout.ticks()
    }

    /// How many workers there are.
    pub fn workers(self) -> u64 {
        self.layout.workers()
    }

    /// The tick of a time, in milliseconds since 1970; the first one of times before the epoch.
    pub fn tick_at(self, ms: i64) -> u64 {
        let since = ms.saturating_sub(self.epoch_ms).max(0).cast_unsigned();
        since / u64::from(self.layout.unit_ms)
    }

    /// How many ticks a time has, two at the least.
    pub fn ticks_in(self, time: Duration) -> u64 {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        (ms / u64::from(self.layout.unit_ms)).max(2)
    }

    /// When a tick begins, in milliseconds since 1970.
    pub fn ms_of(self, tick: u64) -> i64 {
        let since = tick.saturating_mul(self.layout.unit_ms.into());
        i64::try_from(since).unwrap_or(i64::MAX).saturating_add(self.epoch_ms)
    }

    /// When a tick begins; the end of the calendar where that is later.
    pub fn time_of(self, tick: u64) -> Timestamp {
        Timestamp::from_millisecond(self.ms_of(tick)).unwrap_or(Timestamp::MAX)
    }

    /// When no ID can be made any more.
    pub fn runs_out_at(self) -> Timestamp {
        self.time_of(self.ticks())
    }

    /// Whether that is a matter of few years.
    pub fn ends_soon(self, now: Timestamp) -> bool {
        self.runs_out_at().duration_since(now) < WARN_BEFORE
    }

    /// The ordinals under which ticks of a worker are on record: those of one worker lie together.
    pub fn ordinals(self, worker: u32, ticks: Range<u64>) -> Range<u64> {
        let first = u64::from(worker) << self.layout.time_bits;
        first + ticks.start..first + ticks.end
    }
}

/// A layout as it is kept, however it was typed. What is not a layout stays as it is, to be refused.
pub(super) fn canonical(text: &str) -> String {
    Layout::parse(text).map_or_else(|_| text.to_owned(), |layout| layout.to_string())
}

/// How long the text of an ID is where nothing is said: numbers of any length in decimal; in other
/// alphabets all of one length, so that they sort as texts too where the alphabet does.
pub(super) fn length_for(layout: &str, alphabet: &str) -> u8 {
    let decimal = Alphabet::parse(alphabet).is_ok_and(|it| it.symbols() == DECIMAL);
    if decimal { 0 } else { Layout::parse(layout).map_or(0, |layout| length_of(layout, alphabet)) }
}

/// How many characters of an alphabet every ID of a layout fits into.
pub(super) fn length_of(layout: Layout, alphabet: &str) -> u8 {
    let size = Alphabet::parse(alphabet).map_or(2, |alphabet| u128::from(alphabet.size()));
    let (ids, mut texts, mut length) = (1_u128 << layout.bits(), size, 1);
    while texts < ids {
        texts *= size;
        length += 1;
    }
    length
}
