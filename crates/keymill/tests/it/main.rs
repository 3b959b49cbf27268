//! The integration tests, in one binary so that they link once.

#![allow(clippy::unwrap_used, reason = "a test that fails to unwrap has failed, and says where")]

mod certificates;
mod cli;
mod connections;
mod docs;
#[cfg(feature = "grpc")]
mod grpc;
mod http;
mod layout;
mod pool;
mod redis_protocol;
// These are the same for the engine's tests.
#[allow(dead_code, reason = "some of it is for the engine's tests alone")]
#[path = "../../../keymill-engine/tests/it/servers.rs"]
mod servers;
#[path = "../../../keymill-engine/tests/it/setup.rs"]
mod setup;
mod upgrade;
