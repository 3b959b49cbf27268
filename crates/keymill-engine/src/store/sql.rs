//! The stores that are SQL databases.
//!
//! What a store does, statement by statement, stands here once: an algorithm for each thing that is stored,
//! over a small transaction trait (`driver`), with statements that are written once (`statement`,
//! `statements`). Each driver is a folder with what differs: connections, transactions, bulk writes, words.
//! Nothing above `store` names any of them.

#[cfg_attr(not(feature = "mysql"), allow(dead_code, unused_imports))]
mod migrations;

mod confirm;
mod digests;
mod driver;
mod export_page;
mod instances;
mod leases;
mod moves;
mod names;
mod pools;
mod rows;
mod spaces;
mod statement;
mod statements;
mod steps;
mod store;
mod use_log;
mod value;
mod windows;

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
