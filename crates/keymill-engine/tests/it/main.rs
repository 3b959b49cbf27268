//! The integration tests, in one binary so that they link once.

#![allow(clippy::unwrap_used, reason = "a test that fails to unwrap has failed, and says where")]

mod blocked;
mod doubt;
#[cfg(feature = "etcd")]
mod etcd;
mod face;
mod grow;
mod lost_import;
mod paused;
mod rollback;
mod schema;
mod servers;
mod setup;
mod snowflake;
mod sources;
mod store_behavior;
mod tokens;
mod undone;
mod unreliable;
mod unwritten;
