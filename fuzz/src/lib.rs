//! What the fuzz targets share.
//!
//! A target has what a stranger may send, and says what must be true of the answer. It runs against a true instance, on
//! a SQLite file, in this process: over streams in memory, everything from the first byte of a connection to the rows of
//! the store is the code that users have.
//!
//! - [`world`]: the instance, with a keyspace of every kind
//! - [`memory`]: how much an input may make it allocate
//! - [`line`]: a connection, and what is sent over it in pieces
//! - [`words`]: texts that mean something to keymill, among texts that do not
//! - [`resp`]: answers of the Redis protocol, read back

pub mod line;
pub mod memory;
pub mod resp;
pub mod words;
pub mod world;
