//! The stores that are SQL databases.
//!
//! What a store does, statement by statement, stands here once: an algorithm for each thing that is stored,
//! over a small transaction trait (`driver`), with statements that are written once (`statement`,
//! `statements`). Each driver is a folder with what differs: connections, transactions, words. Those on the
//! network share how the server that takes writes is found (`hosts`) and how a schema is made (`migrations`).
//! Nothing above `store` names any of them.

#[cfg(any(feature = "mysql", feature = "postgres"))]
#[cfg_attr(not(all(feature = "mysql", feature = "postgres")), allow(dead_code))]
mod hosts;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod migrations;

// Each driver uses some of it, and a build with few of them leaves the rest unused.
#[cfg_attr(not(all(feature = "mysql", feature = "postgres", feature = "sqlite")), allow(dead_code))]
mod statement;
#[cfg_attr(not(all(feature = "mysql", feature = "postgres", feature = "sqlite")), allow(dead_code))]
mod value;

mod confirm;
mod digests;
mod driver;
mod instances;
mod leases;
mod moved_values;
mod moves;
mod names;
mod pools;
mod rows;
mod spaces;
mod statements;
mod steps;
mod store;
mod tokens;
mod use_log;
mod windows;

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
