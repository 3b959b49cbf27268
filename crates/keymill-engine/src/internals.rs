//! What suites, proofs and benches of this workspace need, and nobody else.
//!
//! It changes with the code and promises nothing. The `keymill` crate does not use it; a test says so.

pub use crate::source::lease::{Draw, LEASE_SIZE_MAX, LeasePair};
pub use crate::source::leased::Mill;
pub use crate::source::ticks::Ticks;
pub use crate::supply::demand::{Pace, SHARE};

/// The stores themselves, with every request and answer.
pub mod store {
    pub use crate::store::*;
}
