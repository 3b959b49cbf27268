//! A layout: how time, a worker and a sequence share the bits of a snowflake ID.
//!
//! The engine counts time by it, and puts IDs together and takes them apart. A layout knows
//! nothing of clocks and epochs: a tick is a number, and who holds a worker is decided elsewhere.
//!
//! ```text
//! 41/10/12         0 | time | worker | sequence
//! 39/s8/w16@10ms   0 | time | sequence | worker
//! ```
//!
//! # Invariants
//!
//! - Distinct fields have distinct IDs, and `fields(id(f))` is `f`.
//! - A later tick has higher IDs, whatever the worker; those of one worker are in the order of
//!   tick and sequence.
//! - An ID is below 2^63: it fits a signed 64-bit column.

use std::fmt;
use std::ops::Range;

use thiserror::Error;

/// The bits of a snowflake ID, from high to low: time, then worker and sequence, or sequence and
/// worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How many bits count the ticks: at least 1.
    pub time_bits: u32,
    /// How many bits tell workers apart: at most 16.
    pub worker_bits: u32,
    /// How many bits count the IDs of one worker in one tick: at most 31.
    pub sequence_bits: u32,
    /// How long a tick is, in milliseconds: 1 to 60,000.
    pub unit_ms: u32,
    /// Whether the lowest bits are the worker, as Sonyflake has it, and not the sequence.
    pub worker_last: bool,
}

/// What an ID is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The time, in ticks since the epoch.
    pub tick: u64,
    /// Who made it.
    pub worker: u32,
    /// Which one of its worker and tick it is, from 0.
    pub sequence: u32,
}

/// Why a text does not describe a layout.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// It is neither a name nor bits.
    #[error(
        "`{text}` is not a layout: give the bits of time, worker and sequence, such as `41/10/12`, \
         with letters and the length of a tick where they differ, such as `39/s8/w16@10ms`, or \
         name one of {}",
        known_names()
    )]
    NotALayout {
        /// What was given.
        text: String,
    },
    /// Both letters are the same.
    #[error(
        "`{text}` has the same letter twice: one is `w` for the worker and one `s` for the \
         sequence, such as `41/w10/s12`"
    )]
    NamedTwice {
        /// What was given.
        text: String,
    },
    /// Ticks are too short or too long.
    #[error("the tick in `{text}` must be from 1ms to 60s, such as `@10ms` or `@1s`")]
    Unit {
        /// What was given.
        text: String,
    },
    /// There is no time in it.
    #[error("time needs at least 1 bit; 41 bits of milliseconds last 69 years")]
    NoTime,
    /// More workers than can be kept on record.
    #[error("a worker has at most {WORKER_BITS_MAX} bits, not {bits}")]
    WorkerBits {
        /// What was given.
        bits: u32,
    },
    /// More IDs in a tick than anybody makes.
    #[error("a sequence has at most {SEQUENCE_BITS_MAX} bits, not {bits}")]
    SequenceBits {
        /// What was given.
        bits: u32,
    },
    /// IDs would not fit a signed 64-bit integer.
    #[error(
        "a layout has at most {BITS_MAX} bits, so that IDs fit a signed 64-bit integer; {layout} \
         has {}: remove {}",
        layout.bits(),
        layout.bits() - BITS_MAX
    )]
    TooManyBits {
        /// What was given.
        layout: Layout,
    },
}

impl Layout {
    /// Twitter's: 69 years, 1024 workers, 4096 IDs in a millisecond.
    pub const TWITTER: Layout = Layout::in_milliseconds(41, 10, 12);

    /// Sonyflake's: 174 years, 65,536 workers, 256 IDs in 10 ms.
    pub const SONYFLAKE: Layout =
        Layout { unit_ms: 10, worker_last: true, ..Layout::in_milliseconds(39, 16, 8) };

    /// Instagram's: 34 years, 8192 workers (its shards), 1024 IDs in a millisecond.
    ///
    /// Instagram counts 41 bits of time, the highest of which is the sign in its database. Without
    /// that bit every ID that is not negative is the same.
    pub const INSTAGRAM: Layout = Layout::in_milliseconds(40, 13, 10);

    /// One whose IDs JavaScript holds exactly: 69 years, 32 workers, 128 IDs in a millisecond.
    pub const JAVASCRIPT: Layout = Layout::in_milliseconds(41, 5, 7);

    /// Reads a name, or the bits of time, worker and sequence: `41/10/12`.
    ///
    /// Letters give the order of the last two (`39/s8/w16`), and a unit the length of a tick where
    /// it is not a millisecond (`39/s8/w16@10ms`).
    pub fn parse(text: &str) -> Result<Layout, LayoutError> {
        if let Some(&(_, layout)) = NAMED.iter().find(|&&(name, _)| name == text) {
            return Ok(layout);
        }
        let not_a_layout = || LayoutError::NotALayout { text: text.to_owned() };
        let (bits, unit_ms) = match text.split_once('@') {
            Some((bits, unit)) => (bits, parse_unit(unit).ok_or_else(not_a_layout)?),
            None => (text, 1),
        };
        let parts: Vec<&str> = bits.split('/').collect();
        let &[time, second, third] = parts.as_slice() else {
            return Err(not_a_layout());
        };
        let time_bits = parse_bits(time).ok_or_else(not_a_layout)?;
        let second = parse_part(second).ok_or_else(not_a_layout)?;
        let third = parse_part(third).ok_or_else(not_a_layout)?;
        let (worker_bits, sequence_bits, worker_last) = match (second, third) {
            (("", worker), ("", sequence)) => (worker, sequence, false),
            (("w", worker), ("s", sequence)) => (worker, sequence, false),
            (("s", sequence), ("w", worker)) => (worker, sequence, true),
            (("w", _), ("w", _)) | (("s", _), ("s", _)) => {
                return Err(LayoutError::NamedTwice { text: text.to_owned() });
            }
            _ => return Err(not_a_layout()),
        };
        if !(1..=UNIT_MS_MAX).contains(&unit_ms) {
            return Err(LayoutError::Unit { text: text.to_owned() });
        }
        Layout { time_bits, worker_bits, sequence_bits, unit_ms, worker_last }.checked()
    }

    /// How many bits an ID has.
    pub fn bits(self) -> u32 {
        self.time_bits + self.worker_bits + self.sequence_bits
    }

    /// How many ticks there are.
    pub fn ticks(self) -> u64 {
        power_of_two(self.time_bits)
    }

    /// How many workers there are.
    pub fn workers(self) -> u64 {
        power_of_two(self.worker_bits)
    }

    /// How many IDs a worker has in one tick.
    pub fn sequences(self) -> u64 {
        power_of_two(self.sequence_bits)
    }

    /// Whether no ID loses digits where JSON is read as JavaScript reads it, with numbers that are
    /// doubles.
    pub fn is_safe_in_json(self) -> bool {
        self.bits() <= DOUBLE_BITS
    }

    /// The ID of these fields, which have to fit.
    #[inline]
    pub fn id(self, fields: Fields) -> u64 {
        let (worker, sequence) = (u64::from(fields.worker), u64::from(fields.sequence));
        assert!(
            fields.tick < self.ticks() && worker < self.workers() && sequence < self.sequences(),
            "{fields:?} do not fit {self}"
        );
        (fields.tick << self.tick_shift())
            | (worker << self.worker_shift())
            | (sequence << self.sequence_shift())
    }

    /// What an ID is made of; `None` where it has more bits than the layout.
    pub fn fields(self, id: u64) -> Option<Fields> {
        let tick = id >> self.tick_shift();
        (tick < self.ticks()).then(|| Fields {
            tick,
            worker: low_bits(id >> self.worker_shift(), self.worker_bits),
            sequence: low_bits(id >> self.sequence_shift(), self.sequence_bits),
        })
    }

    /// The IDs of a worker in one tick, over a range of sequences.
    ///
    /// They are numbers in a row where the sequence is in the lowest bits. Where the worker is
    /// there, a run is the first of them alone, and the caller asks again for the next.
    #[inline]
    pub fn run(self, worker: u32, tick: u64, sequences: Range<u64>) -> Range<u64> {
        if sequences.is_empty() {
            return 0..0;
        }
        // What follows the last sequence is an ID of another worker.
        let end = self.sequences();
        assert!(sequences.end <= end, "sequences {sequences:?} of {end}");
        let sequence = u32::try_from(sequences.start).expect("a sequence has at most 31 bits");
        let first = self.id(Fields { tick, worker, sequence });
        let count = if self.sequence_shift() == 0 { sequences.end - sequences.start } else { 1 };
        first..first + count
    }

    /// The lowest and the highest ID that any worker can have in a range of ticks; `None` where
    /// there is no tick in it. It may reach beyond the last tick.
    pub fn bounds(self, ticks: Range<u64>) -> Option<(u64, u64)> {
        let end = ticks.end.min(self.ticks());
        let shift = self.tick_shift();
        (ticks.start < end).then(|| (ticks.start << shift, (end << shift) - 1))
    }

    const fn in_milliseconds(time_bits: u32, worker_bits: u32, sequence_bits: u32) -> Layout {
        Layout { time_bits, worker_bits, sequence_bits, unit_ms: 1, worker_last: false }
    }

    fn checked(self) -> Result<Layout, LayoutError> {
        if self.time_bits == 0 {
            return Err(LayoutError::NoTime);
        }
        if self.worker_bits > WORKER_BITS_MAX {
            return Err(LayoutError::WorkerBits { bits: self.worker_bits });
        }
        if self.sequence_bits > SEQUENCE_BITS_MAX {
            return Err(LayoutError::SequenceBits { bits: self.sequence_bits });
        }
        if self.bits() > BITS_MAX {
            return Err(LayoutError::TooManyBits { layout: self });
        }
        Ok(self)
    }

    /// How many bits are below the time.
    fn tick_shift(self) -> u32 {
        // A layout need not have been parsed, and time that is shifted out would be lost silently.
        assert!(self.bits() <= BITS_MAX, "{self} has more than {BITS_MAX} bits");
        self.worker_bits + self.sequence_bits
    }

    fn worker_shift(self) -> u32 {
        if self.worker_last { 0 } else { self.sequence_bits }
    }

    fn sequence_shift(self) -> u32 {
        if self.worker_last { self.worker_bits } else { 0 }
    }
}

impl Default for Layout {
    fn default() -> Layout {
        Layout::TWITTER
    }
}

/// In numbers, also where the layout has a name: what `parse` reads as the same layout.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Layout { time_bits, worker_bits, sequence_bits, unit_ms, worker_last } = self;
        match worker_last {
            false => write!(f, "{time_bits}/{worker_bits}/{sequence_bits}")?,
            true => write!(f, "{time_bits}/s{sequence_bits}/w{worker_bits}")?,
        }
        match unit_ms {
            1 => Ok(()),
            ms if ms.is_multiple_of(1000) => write!(f, "@{}s", ms / 1000),
            ms => write!(f, "@{ms}ms"),
        }
    }
}

const NAMED: [(&str, Layout); 4] = [
    ("twitter", Layout::TWITTER),
    ("sonyflake", Layout::SONYFLAKE),
    ("instagram", Layout::INSTAGRAM),
    ("javascript", Layout::JAVASCRIPT),
];

/// The 64th bit is the sign of a column.
const BITS_MAX: u32 = 63;
/// Every worker has a row in the store.
const WORKER_BITS_MAX: u32 = 16;
const SEQUENCE_BITS_MAX: u32 = 31;
const UNIT_MS_MAX: u32 = 60_000;
/// A double holds every whole number of so many bits.
const DOUBLE_BITS: u32 = 53;

fn known_names() -> String {
    NAMED.map(|(name, _)| name).join(", ")
}

/// The letter before a number of bits, or an empty one, and the number.
fn parse_part(text: &str) -> Option<(&str, u32)> {
    let (letter, digits) = text.split_at(text.find(|c: char| c.is_ascii_digit())?);
    Some((letter, parse_bits(digits)?))
}

fn parse_bits(text: &str) -> Option<u32> {
    if text.len() > 2 || !is_digits(text) {
        return None;
    }
    text.parse().ok()
}

/// The milliseconds of a unit; `u32::MAX` where it is longer.
fn parse_unit(text: &str) -> Option<u32> {
    let (digits, ms) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix('s')?, 1000),
    };
    is_digits(digits).then(|| digits.parse().unwrap_or(u32::MAX).saturating_mul(ms))
}

/// `str::parse` would take a sign, too.
fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn power_of_two(bits: u32) -> u64 {
    1_u64.checked_shl(bits).expect("a field has at most 63 bits")
}

fn low_bits(value: u64, bits: u32) -> u32 {
    let value = value & (power_of_two(bits) - 1);
    u32::try_from(value).expect("workers and sequences have at most 31 bits")
}
