//! The atomics that `lease` is built on.
//!
//! Named in one place so that the proof crate can compile `lease.rs` against loom's
//! versions and try every interleaving of the very code that runs in production.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
