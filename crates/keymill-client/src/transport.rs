//! Transport: how one request gets to one server.
//!
//! `servers` holds a [`Line`] to each server, and `calls` sends on it. Nothing here repeats a request that a server may have
//! seen.

mod address;
mod body;
mod dial;
mod line;
mod tls;

#[cfg(feature = "grpc")]
pub(crate) use address::Place;
pub(crate) use address::{Address, shown};
pub(crate) use body::Body;
pub(crate) use dial::{Bytes as StreamBytes, Dialer};
pub(crate) use line::{Answer, Failure, Line};
pub(crate) use tls::{TlsFiles, connector};
