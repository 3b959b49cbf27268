//! What a take has drawn and not handed out yet.

use std::ops::Range;

use super::numbers::Numbers;

/// What a take has drawn. Unless the take succeeds and keeps it, all of it comes back: when the take
/// is refused half-way, and when its caller goes away before anything was sent.
#[derive(Debug)]
pub(crate) struct Drawn<'a> {
    from: Numbers<'a>,
    runs: Vec<Range<u64>>,
}

impl<'a> Drawn<'a> {
    /// Nothing yet.
    pub(crate) fn of(from: Numbers<'a>) -> Drawn<'a> {
        Drawn { from, runs: Vec::new() }
    }

    /// Adds what was just drawn.
    pub(crate) fn add(&mut self, run: Range<u64>) {
        self.runs.push(run);
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
        for run in self.runs.drain(..).rev() {
            self.from.put_back(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::source::leased::Mill;

    #[test]
    fn what_came_back_is_drawn_again_before_anything_else() {
        let mill = Mill::new(1, Duration::from_secs(1));
        mill.fill(0..10);
        let mut drawn = Drawn::of(Numbers::Leased(&mill));
        drawn.add(mill.try_draw(4).unwrap().unwrap());
        drop(drawn);
        assert_eq!((mill.left(), mill.drawn()), (10, 0));
        assert!(mill.has_back(&(0..10)) && !mill.has_back(&(10..20)));
        assert_eq!(mill.try_draw(3), Ok(Some(0..3)));
        assert_eq!(mill.try_draw(3), Ok(Some(3..4)));
        assert_eq!(mill.try_draw(3), Ok(Some(4..7)));
        let mut drawn = Drawn::of(Numbers::Leased(&mill));
        drawn.add(mill.try_draw(3).unwrap().unwrap());
        drawn.keep();
        assert_eq!(mill.left(), 0);
    }
}
