//! The integration tests, in one binary so that they link once.

#![allow(clippy::unwrap_used, reason = "a test that fails to unwrap has failed, and says where")]

mod cli;
mod connections;
mod doubt;
mod grow;
mod http;
mod pool;
mod schema;
mod servers;
mod snowflake;
mod store_behavior;
