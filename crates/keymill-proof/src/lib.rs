//! keymill-proof: what shows, rather than says, that keymill never hands out a key twice.
//!
//! It starts real server processes on one store, takes keys from them over many connections,
//! kills, pauses and stops the processes meanwhile, and looks for a key received twice. The
//! binary `faulty` is the negative control: servers with a known fault, in which the same
//! harness must find duplicates. Nothing here is part of the production binary.
//!
//! # Layout
//!
//! - [`process`]: a server process, from its greeting to its end.
//! - [`backend`]: private database servers, to run on and to harm.
//! - [`proxy`]: faults on the way to a store.
//! - [`client`]: a blocking HTTP client that shows what a broken answer still contained.
//! - [`checker`]: all keys received, and the [`Report`] on them.
//! - [`torture`]: servers, callers and nemesis, put together.
//! - [`dice`]: repeatable chance.

pub mod backend;
pub mod process;
pub mod proxy;

pub mod client;

pub mod checker;
pub mod torture;

pub mod random;

pub use checker::{Checker, Report};
pub use client::{Answer, Client};
pub use process::{Server, ServerSpec, binary};
pub use torture::Torture;
