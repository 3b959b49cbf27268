//! keymill: short keys that cannot repeat and cannot be guessed, with nothing stored until used.
//!
//! The server and the command line around `keymill-engine`. The binary is a thin shell around this library,
//! which is here for the tests and the proofs; a program that embeds keymill uses the engine.
//!
//! # Layout
//!
//! A request walks down this list; nothing on it knows anything above itself.
//!
//! - `cli`, `config`: the command line and the settings.
//! - `server`: the accept loop and the orderly end.
//! - `front`: protocols, and only protocols.
//! - `page`: the web page.
//! - `access`: who may do what: tokens, rights, limits.
//! - `metrics`: what is counted.

#[cfg(feature = "http")]
pub mod access;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod config;
#[cfg(feature = "http")]
pub mod front;
#[cfg(feature = "http")]
pub mod metrics;
#[cfg(feature = "http")]
pub mod page;
#[cfg(feature = "http")]
pub mod server;
