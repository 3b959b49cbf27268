//! The files that floors are kept in: logs that processes share.
//!
//! `fence` appends to them and follows them; SQLite reads the one beside its database inside its
//! transactions. Appending and compacting happen under a lock among processes, and a crash leaves the
//! old file or the new one.

pub(crate) mod appender;
pub(crate) mod durable;
pub(crate) mod known;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod old;
#[cfg(feature = "sqlite")]
pub(crate) mod reader;
pub(crate) mod shared;
pub(crate) mod tail;

#[cfg(feature = "sqlite")]
pub(crate) use lock::FileLock;
#[cfg(feature = "sqlite")]
pub(crate) use reader::FloorReader;
