//! Supply: the tasks that keep sources filled.
//!
//! One task a source, started on first demand. They are the only code that leases for a running
//! instance, and the last thing they do at a clean stop is to give back what was not drawn.
//!
//! - [`leases`]: ranges of ordinals, sized by `demand`.
//! - [`windows`]: workers of snowflake keyspaces and the time that they may write into IDs.
//! - [`claims`]: keys of pools.

pub(crate) mod claims;
pub(crate) mod demand;
pub(crate) mod leases;
pub(crate) mod retry;
pub(crate) mod windows;
