//! keymill's engine: keyspaces on a store, in process.
//!
//! What a Rust program embeds to hand out keys that cannot repeat. There is no protocol here, no command line and
//! no settings file; the `keymill` crate adds those.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), keymill_engine::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # std::env::set_current_dir(&folder).unwrap();
//! use keymill_engine::{Keymill, Shape};
//!
//! let keymill = Keymill::open("sqlite:keys.db").await?;          // checks the store, starts the heartbeat
//! let links = keymill.keyspace("links").shape(Shape::base62(7)).ensure().await?;
//! let key = links.take().await?;
//! let batch = links.take_many(1_000).await?;
//! println!("{:?}", links.explain(&key).await?);
//! keymill.close().await;                                         // gives leases back
//! # assert_eq!((key.len(), batch.len(), batch.contains(&key)), (7, 1_000, false));
//! # Ok(()) }
//! ```
//!
//! Everything that the types of this crate mention is here, at its root:
//!
//! ```
//! use keymill_engine::{Audit, Difference, Error, Explanation, Keymill, SpaceSpec};
//!
//! /// Keeps a record of every link that is handed out.
//! async fn audit_links(keymill: &Keymill) -> Result<(), Error> {
//!     let settings = SpaceSpec { audit: Some(Audit::Key), ..SpaceSpec::default() };
//!     match keymill.keyspace("links").settings(settings).ensure().await {
//!         Err(Error::DifferentDefinition { differences, .. }) => {
//!             for Difference { setting, stored, asked } in &differences {
//!                 eprintln!("{setting} is {stored}, not {asked}");
//!             }
//!             Ok(())
//!         }
//!         other => other.map(drop),
//!     }
//! }
//!
//! /// Who got a key, and which process handed it out.
//! fn origin(about: Explanation) -> Option<(String, u32)> {
//!     Some((about.used?.caller, about.lease?.holder.pid))
//! }
//! ```
//!
//! A store on the network needs a data directory, and a program that takes a few keys and ends needs no heartbeat: see
//! [`KeymillBuilder`].
//!
//! # Layout
//!
//! A request walks down this list; a room uses those below it and none above.
//!
//! - [`Keymill`], [`Keyspace`], [`Shape`]: what a program embeds.
//! - `operations`: what the `keymill` server calls: take, explain, names, pools, spaces.
//! - `supply`: what keeps sources filled in the background: leases, windows, claims.
//! - `source`: what takes draw from, in memory: leased ordinals, ticks of a window, claimed keys, UUIDs.
//! - `fence`: a store with its floors. Every change goes through it, and is confirmed before a key of it leaves.
//! - `store`: databases, and only databases; with the marks and the floor file that changes are compared with.
//! - `space`: what a keyspace is: definition, settings, from ordinals to keys, secrets, digests.
//! - `instance`, `clock`, `latency`: this process, the time, and how long things took.

mod fence;
mod keymill;
mod keyspace;
mod shape;
mod source;
mod store;
mod supply;

// What the `keymill` crate puts behind its protocols. It may change with every version: programs use the
// types below.
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod instance;
#[doc(hidden)]
pub mod latency;
#[doc(hidden)]
pub mod operations;
#[doc(hidden)]
pub mod space;
#[doc(hidden)]
pub use operations::{Service, ServiceError};

#[doc(hidden)]
pub mod internals;

// What a program calls, and every type that this mentions.
pub use fence::OtherStore;
pub use instance::Instance;
pub use keymill::{Keymill, KeymillBuilder};
pub use keyspace::{Keyspace, KeyspaceBuilder};
pub use operations::{
    Explanation, IdFields, LeaseRecord, Purpose, ServiceError as Error, State, UsedKey,
};
pub use shape::Shape;
pub use space::digest::{DigestError, Normalize};
pub use space::{Audit, DefinitionError, Difference, Kind, RolledBack, SpaceSpec};
// Those of other crates.
pub use jiff::Timestamp;
pub use keymill_core::{CodecError, GenerationError, LayoutError, ShapeError};
