//! Sources: what takes draw from, in memory and without a lock.
//!
//! `operations` draws on every take, and `supply` keeps a source filled in the background. Nothing here
//! does I/O or asks a store.
//!
//! - [`leased`]: a mill, which draws from the ordinals of at most two leases ([`lease`]).
//! - [`ticks`]: IDs made of the time, inside a window of a worker.
//! - [`claimed_keys`]: keys of a pool that this process alone may hand out; a mill hands out their numbers.
//! - `uuids`: keys that no store has to know.
//!
//! What they share: [`numbers`], which the first three are drawn from in runs; `drawn`, what a take has
//! drawn and may give back; [`queue`], where callers wait for `supply`; and [`outlook`], what they can
//! expect.

mod atomics;
pub(crate) mod claimed_keys;
pub(crate) mod drawn;
pub(crate) mod lease;
#[cfg(test)]
mod lease_tests;
pub(crate) mod leased;
pub(crate) mod numbers;
pub(crate) mod outlook;
pub(crate) mod queue;
pub(crate) mod ticks;
pub(crate) mod uuids;
