//! The fronts: protocols, and nothing but protocols.
//!
//! A front parses a request, calls `operations`, and writes the answer. It never imports `store`
//! drivers and decides nothing about keys.

pub mod addresses;
pub(crate) mod admission;
#[cfg(feature = "grpc")]
mod grpc;
pub mod http;
pub mod problem;
pub(crate) mod redis;
pub mod schemas;
pub mod space_settings;
mod span;
pub(crate) mod time;
pub mod view;
