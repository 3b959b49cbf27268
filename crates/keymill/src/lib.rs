//! keymill: short keys that cannot repeat and cannot be guessed, with nothing stored until used.
//!
//! The binary is a thin shell around this library; a Rust program can embed a [`Service`] with
//! one store and take keys in process.
//!
//! # Layout
//!
//! A request walks down this list; a room uses those below it and none above.
//!
//! - `cli`, `config`: the command line and the settings.
//! - `server`: the accept loop and the orderly end.
//! - `front`: protocols, and only protocols.
//! - [`operations`]: what every front calls: take, explain, names, pools, spaces.
//! - [`supply`]: what keeps sources filled in the background: leases, windows, claims.
//! - [`source`]: what takes draw from, in memory: leased ordinals, ticks of a window, claimed keys, UUIDs.
//! - [`fence`]: a store with its floors: every change is made sure of before anything of it leaves.
//! - [`store`]: databases, and only databases; with the marks and the floor file that they compare.
//! - [`space`]: what a keyspace is: definition, settings, from ordinals to keys, secrets, digests.
//! - [`instance`], [`clock`]: this process, and the time.

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod config;
#[cfg(feature = "http")]
pub mod front;
#[cfg(feature = "http")]
pub mod metrics;
#[cfg(feature = "http")]
pub mod server;

pub mod clock;
pub mod fence;
pub mod instance;
pub mod operations;
pub mod source;
pub mod space;
pub mod store;
pub mod supply;

pub use operations::{Service, ServiceError};
