//! Batches: the commands between `MULTI` and `EXEC`, kept as they were sent until they are run.
//!
//! `session` adds to a [`Queue`] and runs it as a [`Batch`], through the same code as any other command. A batch is a
//! pipeline whose answers come as one list: nothing is undone if one of its commands fails, and others are served
//! between two of them.

use super::commands::{Entry, Verb};
use super::failure::Failure;
use super::frame::Command;

/// The most commands of a batch, and the most bytes they have.
pub(super) const COMMANDS_MAX: usize = 1_024;
const BYTES_MAX: usize = 32 << 10;

/// The commands of a batch that is not complete.
#[derive(Debug, Default)]
pub(super) struct Queue {
    bytes: Vec<u8>,
    count: usize,
    /// Whether one of them was refused, so that none will be run.
    is_broken: bool,
}

/// A batch that is being run.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    /// Where the next command begins.
    pub(super) at: usize,
}

impl Queue {
    /// Keeps a command for later, or refuses it and with it the whole batch.
    pub(super) fn add(
        &mut self,
        entry: Option<&Entry>,
        command: Command<'_>,
    ) -> Result<(), Failure> {
        let checked = self.check(entry, command);
        if checked.is_err() {
            // Nothing of it will be needed.
            *self = Queue { is_broken: true, ..Queue::default() };
        } else if !self.is_broken {
            self.bytes.reserve_exact(reserve(self.bytes.len(), command.bytes.len()));
            self.bytes.extend_from_slice(command.bytes);
            self.count += 1;
        }
        checked
    }

    fn check(&self, entry: Option<&Entry>, command: Command<'_>) -> Result<(), Failure> {
        let entry = entry.ok_or_else(|| Failure::unknown(command))?;
        if !entry.fits(command) {
            return Err(Failure::parts(entry.name));
        }
        if matches!(entry.verb, Verb::Hello | Verb::Auth) {
            let name = entry.name.to_uppercase();
            return Err(Failure::wrong(format!("{name} is not allowed in a batch (MULTI)")));
        }
        if self.count == COMMANDS_MAX || self.bytes.len() + command.bytes.len() > BYTES_MAX {
            return Err(Failure::wrong(format!(
                "a batch (MULTI) has at most {COMMANDS_MAX} commands and {BYTES_MAX} bytes; take several keys with \
                 one SPOP, or send a pipeline without MULTI, which has no limit"
            )));
        }
        Ok(())
    }

    /// What is to be run, and how many commands that is; `None` where one of them was refused.
    pub(super) fn run(self) -> Option<(Batch, usize)> {
        (!self.is_broken).then_some((Batch { bytes: self.bytes, at: 0 }, self.count))
    }
}

impl Batch {
    /// Whether there is nothing left to run.
    pub(super) fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// Whether a command is run at once, also in the middle of a batch.
pub(super) fn is_run_at_once(entry: Option<&Entry>) -> bool {
    entry.is_some_and(|entry| {
        matches!(entry.verb, Verb::Multi | Verb::Exec | Verb::Discard | Verb::Reset | Verb::Quit)
    })
}

/// How many bytes to make room for: twice as many as there are, and never more than a batch may have.
fn reserve(len: usize, more: usize) -> usize {
    more.max(len.min(BYTES_MAX.saturating_sub(len)))
}
