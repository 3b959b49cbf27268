//! The gRPC contract of keymill: `keymill/v1/keymill.proto`, and the Rust code that is made from it.
//!
//! The server uses it with the feature `server`, clients with the feature `client`. It has no transport and no logic.

/// Version 1 of the contract. Fields may be added to it; none is removed, and none changes its meaning.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/keymill.v1.rs"));
}

pub use prost_types::Timestamp;

/// The descriptors of the contract and of what it imports, for server reflection: an encoded `FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keymill.v1.bin"));
