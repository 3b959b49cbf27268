//! The outlook: what a caller who finds a source dry can expect, and why it got nothing.
//!
//! `supply` and the heartbeat set it; the queue and `operations` read it. Nothing here waits.

use std::sync::Arc;

use crate::space::RolledBack;

/// What is wrong where a layout has too few IDs a tick.
const TOO_FAST: &str = "IDs are requested faster than its layout can make them; try again, or use \
                        a layout with more sequence bits";

/// What a caller who finds a source dry can expect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// A lease is on its way, or will be as soon as somebody wants one.
    Filling,
    /// The store does not answer; `supply` keeps asking.
    Unreachable(String),
    /// The pool is empty and being filled.
    PoolFilling,
    /// Every ordinal is granted; asked again with every heartbeat.
    Exhausted {
        /// How many are in open leases of other instances.
        held_elsewhere: u64,
    },
    /// Every worker of a snowflake space is held by others; asked again and again.
    NoWorker(String),
    /// The space was ended.
    Sealed,
    /// The store lies below what was seen of it.
    RolledBack(Arc<RolledBack>),
}

/// Why a source gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// No lease came in time.
    #[error("{0}")]
    Late(String),
    /// The store does not answer; the last error.
    #[error("the store is unreachable ({0})")]
    Unreachable(String),
    /// The pool is empty and being filled.
    #[error("the pool is empty and being filled")]
    PoolFilling,
    /// Every worker of a snowflake space is held by others.
    #[error("{0}")]
    NoWorker(String),
    /// More callers wait than may.
    #[error("too many requests are already waiting for new ones; try again")]
    Crowded,
    /// Every key is granted.
    #[error("all keys are leased; {held_elsewhere} of them are held by other instances")]
    Exhausted {
        /// How many are in open leases of other instances.
        held_elsewhere: u64,
    },
    /// The space was ended.
    #[error("the keyspace is sealed")]
    Sealed,
    /// The store lies below what was seen of it.
    #[error(transparent)]
    RolledBack(Arc<RolledBack>),
    /// This instance gives its leases back.
    #[error("this instance is stopping")]
    Stopping,
}

impl Outlook {
    /// Refuses where waiting is of no use: no keys come before somebody does something about it.
    pub(crate) fn check_hope(&self) -> Result<(), NotReady> {
        match self {
            Outlook::Filling
            | Outlook::Unreachable(_)
            | Outlook::PoolFilling
            | Outlook::NoWorker(_) => Ok(()),
            Outlook::Exhausted { held_elsewhere } => {
                Err(NotReady::Exhausted { held_elsewhere: *held_elsewhere })
            }
            Outlook::Sealed => Err(NotReady::Sealed),
            Outlook::RolledBack(how) => Err(NotReady::RolledBack(how.clone())),
        }
    }

    /// What to tell a caller who has waited in vain.
    pub(super) fn after_waiting(&self) -> NotReady {
        match self {
            Outlook::Unreachable(reason) => NotReady::Unreachable(reason.clone()),
            Outlook::PoolFilling => NotReady::PoolFilling,
            Outlook::NoWorker(reason) => NotReady::NoWorker(reason.clone()),
            _ => NotReady::Late("the store did not grant new ones in time; try again".to_owned()),
        }
    }
}

impl NotReady {
    /// IDs are wanted faster than the clock lets a layout make them.
    pub(super) fn too_fast() -> NotReady {
        NotReady::Late(TOO_FAST.to_owned())
    }
}
