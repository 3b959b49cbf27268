//! The integration tests, in one binary so that they link once.

#![allow(clippy::unwrap_used, reason = "a test that fails to unwrap has failed, and says where")]

mod certificates;
mod cli;
mod connections;
mod http;
mod layout;
mod pool;
mod servers;
mod setup;
mod upgrade;
