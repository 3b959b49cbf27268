//! Supply: the tasks that keep sources filled.
//!
//! One task a source, started on first demand. They are the only code that leases for a running
//! instance, and the last thing they do at a clean stop is to give back what was not drawn.
//!
//! - [`leases`]: ranges of ordinals, sized by `demand`; `held` until they are spent or given back.
//! - [`windows`]: workers of snowflake keyspaces and the time that they may write into IDs.
//! - [`claims`]: keys of pools.
//!
//! What they share: `refusal`, what it means when the store grants nothing, and `retry`, when to ask
//! again; `progress`, what others are told; `stop`, the end.

pub(crate) mod claims;
pub(crate) mod demand;
mod held;
pub(crate) mod leases;
pub(crate) mod progress;
mod refusal;
pub(crate) mod retry;
pub(crate) mod stop;
pub(crate) mod windows;
