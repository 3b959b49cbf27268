//! Ordinals that a take has drawn and not handed out yet.

use std::ops::Range;

use super::Mill;

/// What a take has drawn. Unless the take succeeds and keeps it, all of it comes back: when the take
/// is refused half-way, and when its caller goes away before anything was sent.
#[derive(Debug)]
pub(crate) struct Drawn<'a> {
    mill: &'a Mill,
    runs: Vec<Range<u64>>,
}

impl<'a> Drawn<'a> {
    /// Nothing yet.
    pub(crate) fn of(mill: &'a Mill) -> Drawn<'a> {
        Drawn { mill, runs: Vec::new() }
    }

    /// Adds what was just drawn.
    pub(crate) fn add(&mut self, ordinals: Range<u64>) {
        self.runs.push(ordinals);
    }

    /// Leaves the last run out: it made no key, and stays spent, so that the next take gets further.
    pub(crate) fn spend_last(&mut self) {
        self.runs.pop();
    }

    /// What was drawn leaves the process, or may have: it never comes back.
    pub(crate) fn keep(mut self) {
        self.runs.clear();
    }
}

impl Drop for Drawn<'_> {
    fn drop(&mut self) {
        // The last run first, so that what was drawn first is drawn again first.
        for ordinals in self.runs.drain(..).rev() {
            self.mill.put_back(ordinals);
        }
    }
}
