//! Large answers: the text of their keys is made a piece at a time, each when the one before was sent.
//!
//! `take` makes one, `session` asks it for its pieces. A connection therefore has no more than a piece of it in memory,
//! and keys whose text was not made when the client goes away come back.

use std::sync::Arc;

use keymill_engine::operations::{Unwritten, Withdrawn};

use super::reply::{Reply, Version};
use crate::front::http::budget::{Account, PIECE_BYTES, Whole};

/// How many bytes a key has around it: `$`, its length, and the ends of two lines.
pub(super) const AROUND_KEY: usize = 8;

/// The rest of an answer whose head is written.
#[derive(Debug)]
pub(super) struct Large {
    unwritten: Unwritten,
    version: Version,
    account: Arc<Account>,
    /// Room for the text of rows, which stay in memory to the end.
    _rows: Option<Whole>,
}

impl Large {
    pub(super) fn new(
        unwritten: Unwritten,
        version: Version,
        account: Arc<Account>,
        rows: Option<Whole>,
    ) -> Large {
        Large { unwritten, version, account, _rows: rows }
    }

    /// Writes the next piece; whether it was the last.
    pub(super) fn write(&mut self, output: &mut Vec<u8>) -> Result<bool, Withdrawn> {
        self.account.moved();
        let count = PIECE_BYTES / (self.unwritten.key_len_max() + AROUND_KEY);
        let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let mut reply = Reply::new(output, self.version);
        self.unwritten.write(count, |key| reply.bulk(key))?;
        Ok(self.unwritten.count() == 0)
    }
}
