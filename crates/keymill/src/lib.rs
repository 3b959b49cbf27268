//! keymill: short keys that cannot repeat and cannot be guessed, with nothing stored until used.
//!
//! The binary is a thin shell around this library; a Rust program can embed a [`Service`] with
//! one store and take keys in process.
//!
//! # Layout
//!
//! A request walks down this list; nothing on it knows anything above itself.
//!
//! - `cli`, `config`: the command line and the settings.
//! - `server`: the accept loop and the orderly end.
//! - `front`: protocols, and only protocols.
//! - [`service`]: what every front calls: take, explain, spaces, audit.
//! - [`mill`], [`lease`], [`refill`] (and its `pace`): the hot path, lock-free, and what keeps it supplied.
//! - [`pool`], [`claim`]: the same for keys that are rows.
//! - [`worker`]: the same for IDs that are made of the time.
//! - [`keys`], [`skip`]: from ordinals to keys, as a space grows, and what is left out.
//! - [`space`], [`clock`], [`digest`], [`secret`], [`floor`], [`instance`]: the words they are written in.
//! - [`store`]: databases, and only databases.

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

pub mod service;

pub mod claim;
mod fence;
mod group_commit;
pub mod keys;
pub mod lease;
#[cfg(test)]
mod lease_tests;
pub mod mill;
mod pace;
pub mod pool;
pub mod refill;
pub mod skip;
pub mod worker;

pub mod clock;
pub mod digest;
pub mod floor;
pub mod instance;
pub mod secret;
pub mod space;

pub mod store;

mod sync;
mod turn;

pub use service::{Service, ServiceError};
