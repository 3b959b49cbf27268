//! The Rust client of keymill: takes keys from one or several servers, and keeps some at hand.
//!
//! ```no_run
//! # async fn run() -> Result<(), keymill_client::Error> {
//! let client = keymill_client::Client::connect("http://127.0.0.1:8080")?;
//! let links = client.keyspace("links").cached();
//! let key = links.take().await?;
//! println!("https://sho.rt/{key}");
//! # Ok(())
//! # }
//! ```
//!
//! A take is safe to repeat, and the client repeats it: if the answer is lost on its way, the keys in it stay
//! unused, which costs a gap and never a duplicate. In a keyspace where single keys are recorded (`audit = "key"`, and
//! pools), the lost keys stay recorded as used.
//!
//! # Layout
//!
//! - [`Client`], made by a [`Builder`], and [`Keyspace`]: every call, one request each.
//! - [`CachedKeyspace`]: keys that were fetched ahead, handed out from memory.
//! - [`blocking`]: the same for programs without an async runtime.
//! - [`Error`] with its [`ErrorKind`]: what callers match on.
//! - The answers: [`Key`], [`Digest`], [`Alias`], [`Explanation`], [`UsedKey`], [`KeyspaceInfo`].
//!
//! Inside, `calls` decides which server is asked and whether to ask again (`servers`, `budget`, `backoff`), and
//! `transport` sends a request once.

mod answer;
mod definition;
mod error;
mod key;

mod builder;
mod client;
mod keyspace;

mod cache;

mod backoff;
mod budget;
mod calls;
mod fork;
#[cfg(feature = "grpc")]
mod grpc;
mod request;
mod servers;
mod transport;

pub mod blocking;
#[doc(hidden)]
pub mod raw;

pub use answer::{
    Alias, Digest, Explanation, Instance, KeyState, KeyspaceInfo, Lease, Page, Purpose, UsedKey,
};
pub use builder::Builder;
pub use cache::{CacheBuilder, CacheStatus, CachedKeyspace};
pub use client::Client;
pub use definition::{Audit, Definition, Kind, Normalize};
pub use error::{Difference, Error, ErrorKind};
pub use jiff::Timestamp;
pub use key::Key;
pub use keyspace::Keyspace;

/// What the README shows must compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
