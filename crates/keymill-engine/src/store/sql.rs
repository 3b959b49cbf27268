//! The stores that are SQL databases, and what they share.
//!
//! Each driver is a folder with the same files: `connection`, `transaction`, `statements`, `rows`, and one for
//! each thing that is stored. Nothing above `store` names any of them.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod export_page;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[cfg_attr(not(feature = "mysql"), allow(dead_code, unused_imports))]
mod migrations;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
