//! What callers received: IDs whole, in the order in which each caller got them.
//!
//! Whoever asks an instance for one ID after another gets those of one worker in rising order. Those
//! of another instance may come between: one that was slow to use its window has the earlier one,
//! though the worker is another's already. That is counted, and no fault.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::SocketAddr;

use keymill_proof::{Answer, Client};

/// The bits of the sequence, in all layouts here.
const SEQUENCE_BITS: u32 = 12;
/// Where time begins: 2025-01-01T00:00:00Z, in milliseconds since 1970.
const EPOCH_MS: u64 = 1_735_689_600_000;

/// A layout with milliseconds in 41 bits, and so many bits for the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) worker_bits: u32,
}

impl Layout {
    pub(super) fn workers(self) -> u64 {
        1 << self.worker_bits
    }

    pub(super) fn worker(self, id: u64) -> u64 {
        id >> SEQUENCE_BITS & (self.workers() - 1)
    }

    /// The time in an ID, in milliseconds since 1970.
    pub(super) fn ms(self, id: u64) -> u64 {
        (id >> (SEQUENCE_BITS + self.worker_bits)) + EPOCH_MS
    }

    /// A time in milliseconds since the epoch, in those since 1970.
    pub(super) fn ms_of_tick(tick: u64) -> u64 {
        tick + EPOCH_MS
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "41/{}/{SEQUENCE_BITS}", self.worker_bits)
    }
}

/// What one caller received, who asks for one thing at a time; or all of them together.
#[derive(Debug)]
pub(super) struct Received {
    layout: Layout,
    pub(super) attempted: u64,
    /// Takes that were answered with IDs, completely.
    pub(super) acknowledged: u64,
    /// Takes whose connection broke or timed out.
    pub(super) interrupted: u64,
    /// Refusals by status and code.
    pub(super) refused: BTreeMap<String, u64>,
    /// All IDs, those too at the beginning of answers that broke off.
    pub(super) ids: Vec<u64>,
    /// The last ID of each instance and worker.
    last: BTreeMap<(SocketAddr, u64), u64>,
    /// IDs that came after a higher one of their instance and worker, or after themselves; with that
    /// one.
    disordered: Vec<(u64, u64)>,
    /// The highest ID of each worker.
    highest: BTreeMap<u64, u64>,
    /// IDs that came after a higher one that another instance made with the same worker.
    overtaken: u64,
    /// Answers with fewer or more IDs than asked for.
    pub(super) miscounted: u64,
}

impl Received {
    pub(super) fn new(layout: Layout) -> Received {
        Received {
            layout,
            attempted: 0,
            acknowledged: 0,
            interrupted: 0,
            refused: BTreeMap::new(),
            ids: Vec::new(),
            last: BTreeMap::new(),
            disordered: Vec::new(),
            highest: BTreeMap::new(),
            overtaken: 0,
            miscounted: 0,
        }
    }

    /// Takes so many IDs, and notes what came of it.
    pub(super) fn take(
        &mut self,
        client: &mut Client,
        space: &str,
        count: u32,
    ) -> io::Result<Answer> {
        self.attempted += 1;
        let (before, from) = (self.ids.len(), client.address());
        let answer = client.take(space, count);
        match &answer {
            Ok(answer) if answer.status == 200 => {
                self.acknowledged += 1;
                answer.lines().for_each(|line| self.add(from, line));
                self.miscounted += u64::from(self.ids.len() - before != count as usize);
            }
            Ok(answer) => {
                let what = format!("{} {}", answer.status, code_of(answer));
                *self.refused.entry(what).or_default() += 1;
            }
            Err(_) => {
                self.interrupted += 1;
                // The last line may be cut short, so it is not an ID.
                let whole = client.partial().split_inclusive(|&byte| byte == b'\n');
                let whole = whole.filter_map(|line| line.strip_suffix(b"\n"));
                for line in whole.map(String::from_utf8_lossy) {
                    self.add(from, &line);
                }
            }
        }
        answer
    }

    /// How often takes were refused for this.
    pub(super) fn refused_with(&self, what: &str) -> u64 {
        self.refused.get(what).copied().unwrap_or_default()
    }

    /// The highest ID.
    pub(super) fn highest(&self) -> u64 {
        self.ids.iter().copied().max().unwrap_or_default()
    }

    /// Adds what another caller received.
    pub(super) fn absorb(&mut self, other: Received) {
        self.attempted += other.attempted;
        self.acknowledged += other.acknowledged;
        self.interrupted += other.interrupted;
        self.miscounted += other.miscounted;
        for (what, count) in other.refused {
            *self.refused.entry(what).or_default() += count;
        }
        self.ids.extend(other.ids);
        self.disordered.extend(other.disordered);
        self.overtaken += other.overtaken;
    }

    /// How many IDs came more than once.
    pub(super) fn duplicated(&mut self) -> usize {
        self.ids.sort_unstable();
        self.ids.chunk_by(|one, other| one == other).filter(|run| run.len() > 1).count()
    }

    /// The figures, once all is over, after which no ID may have come twice, nor before a lower one
    /// of its worker.
    #[track_caller]
    pub(super) fn check(&mut self, what: &str) {
        let duplicated = self.duplicated();
        println!("{what}: {self}, {duplicated} duplicated");
        assert_eq!(duplicated, 0, "an ID came twice");
        assert!(self.disordered.is_empty(), "after a higher one: {:?}", self.disordered);
        assert_eq!(self.miscounted, 0, "answers with fewer IDs than asked for");
    }

    fn add(&mut self, from: SocketAddr, line: &str) {
        let id = line.parse().unwrap_or_else(|_| panic!("{line:?} is not an ID"));
        let worker = self.layout.worker(id);
        let last = self.last.insert((from, worker), id);
        if let Some(last) = last.filter(|last| *last >= id) {
            self.disordered.push((id, last));
        }
        let highest = self.highest.entry(worker).or_default();
        self.overtaken += u64::from(*highest > id);
        *highest = id.max(*highest);
        self.ids.push(id);
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Received { attempted, acknowledged, interrupted, refused, overtaken, .. } = self;
        let workers: BTreeSet<u64> = self.ids.iter().map(|id| self.layout.worker(*id)).collect();
        write!(
            f,
            "{attempted} takes attempted, {acknowledged} acknowledged, {interrupted} interrupted, \
             refused {refused:?}, {} IDs of the workers {workers:?}, {overtaken} overtaken",
            self.ids.len()
        )
    }
}

/// The stable code of a problem.
fn code_of(answer: &Answer) -> &str {
    let code = answer.text().split_once("\"code\":\"").map(|(_, rest)| rest);
    code.and_then(|code| code.split('"').next()).unwrap_or_default()
}
