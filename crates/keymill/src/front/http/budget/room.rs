//! Room in the budget: for a piece until its bytes are sent, and for a text that is in memory as a whole.
//!
//! Both give their room back when they are dropped, and tell the account of their answer.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::account::Account;
use super::{ANSWER_PIECES_MAX, PIECE_BYTES};

/// Room for one piece.
#[derive(Debug)]
pub(in crate::front) struct Room {
    account: Arc<Account>,
    _bytes: Option<OwnedSemaphorePermit>,
    _piece: OwnedSemaphorePermit,
}

/// Room for a text that is in memory as a whole, until it is dropped.
#[derive(Debug)]
pub(in crate::front) struct Whole {
    bytes: OwnedSemaphorePermit,
    /// Whose it is, once its answer has begun.
    account: Option<Arc<Account>>,
}

impl Room {
    pub(super) fn new(
        account: Arc<Account>,
        bytes: Option<OwnedSemaphorePermit>,
        piece: OwnedSemaphorePermit,
    ) -> Room {
        Room { account, _bytes: bytes, _piece: piece }
    }

    /// The bytes of a piece, which give this room back when the last of them is dropped.
    pub(in crate::front) fn hold(self, text: Vec<u8>) -> Bytes {
        self.account.hold(PIECE_BYTES);
        Bytes::from_owner(Piece { text, room: self })
    }
}

/// A piece that was made and is not sent yet.
struct Piece {
    text: Vec<u8>,
    room: Room,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.room.account.let_go(PIECE_BYTES);
    }
}

impl Whole {
    pub(super) fn new(bytes: OwnedSemaphorePermit) -> Whole {
        Whole { bytes, account: None }
    }

    /// Gives back what the text and its pieces do not need, now that its size is known, and puts the rest
    /// on an account.
    pub(in crate::front) fn settle(mut self, bytes: usize, account: &Arc<Account>) -> Whole {
        let needed = bytes + ANSWER_PIECES_MAX * PIECE_BYTES;
        let rest = self.bytes.num_permits().saturating_sub(needed);
        drop(self.bytes.split(rest));
        account.hold(self.bytes.num_permits());
        self.account = Some(account.clone());
        self
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.let_go(self.bytes.num_permits());
        }
    }
}
