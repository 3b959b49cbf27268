//! gRPC, through the client of keymill: one connection for each user, and one attempt for each request.

use keymill_client::Keyspace;

use super::fault::Fault;
use super::target::Server;
use super::told::{Asked, Told};

/// A connection to a server.
#[derive(Debug)]
pub(super) struct GrpcLink {
    keyspace: Keyspace,
    /// The keys of an answer, one per line.
    lines: Vec<u8>,
}

impl GrpcLink {
    /// Nothing is sent: the first request connects.
    pub(super) fn new(server: &Server, space: &str) -> GrpcLink {
        let keyspace = server.client.with_own_connections().keyspace(space);
        GrpcLink { keyspace, lines: Vec::new() }
    }

    /// Sends one request and reads its answer.
    pub(super) async fn round(&mut self, asked: Asked, told: &mut Told<'_>) -> Result<(), Fault> {
        debug_assert_eq!(asked.requests, 1, "requests are not pipelined");
        let keys = match self.keyspace.take_many(asked.count).await {
            Ok(keys) => keys,
            Err(error) => {
                told.refused(Fault::refused(error));
                return Ok(());
            }
        };
        self.lines.clear();
        for key in &keys {
            self.lines.extend_from_slice(key.as_bytes());
            self.lines.push(b'\n');
        }
        told.keys(&self.lines, asked.count)
    }
}
