//! keymill's engine: keyspaces on a store, in process.
//!
//! What a Rust program embeds: a [`Service`] with one store hands out keys that cannot repeat. There is no
//! protocol here, no command line and no settings file; the `keymill` crate adds those.
//!
//! # Layout
//!
//! A request walks down this list; a room uses those below it and none above.
//!
//! - [`operations`]: what a front calls: take, explain, names, pools, spaces.
//! - `supply`: what keeps sources filled in the background: leases, windows, claims.
//! - `source`: what takes draw from, in memory: leased ordinals, ticks of a window, claimed keys, UUIDs.
//! - `fence`: a store with its floors: every change is made sure of before anything of it leaves.
//! - [`store`]: databases, and only databases; with the marks and the floor file that they compare.
//! - [`space`]: what a keyspace is: definition, settings, from ordinals to keys, secrets, digests.
//! - [`instance`], [`clock`]: this process, and the time.

pub mod clock;
mod fence;
pub mod instance;
pub mod operations;
mod source;
pub mod space;
pub mod store;
mod supply;

#[doc(hidden)]
pub mod internals;

pub use operations::{Service, ServiceError};
