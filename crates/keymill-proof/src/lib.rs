//! keymill-proof: what shows, rather than says, that keymill never hands out a key twice.
//!
//! It starts real server processes on one store, takes keys from them over many connections,
//! kills, pauses and stops the processes meanwhile, and looks for a key received twice. The
//! binary `faulty` is the negative control: servers with a known fault, in which the same
//! harness must find duplicates. Nothing here is part of the production binary.
//!
//! # Layout
//!
//! Servers:
//!
//! - [`deployment`]: a store, and the folder of the servers on it.
//! - [`process`]: a server process, from its greeting to its end.
//! - [`fleet`]: several of them, as callers find them and a test harms them.
//! - [`backend`]: private database servers, to run on and to harm.
//! - [`proxy`]: faults on the way to a store.
//!
//! Callers:
//!
//! - [`client`]: a blocking HTTP client that shows what a broken answer still contained.
//! - [`take`]: one take and what came of it, over HTTP or another protocol.
//! - [`caller`]: takes again and again.
//! - [`load`]: many callers at work on a fleet, while something happens to it.
//! - [`received`]: what they were given, and whether a key came twice.
//!
//! Harm:
//!
//! - [`harm`]: a plan of kills, pauses and stops, run to a seed.
//! - [`torture`]: servers, callers and harm, put together.

pub mod backend;
pub mod deployment;
pub mod fleet;
pub mod process;
pub mod proxy;

pub mod caller;
pub mod client;
pub mod load;
pub mod received;
pub mod take;

pub mod harm;
pub mod torture;

mod end;
mod key_set;

pub use caller::Caller;
pub use client::{Answer, Client};
pub use deployment::Deployment;
pub use end::{End, EndsWhenDropped};
pub use fleet::Fleet;
pub use harm::{Deed, Harm, Plan};
pub use load::{Load, Run};
pub use process::{Server, ServerSpec, binary};
pub use received::Received;
pub use take::{HttpTake, Take, Taken};
pub use torture::Torture;
