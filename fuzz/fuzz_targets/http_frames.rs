//! HTTP/1.1 and HTTP/2: any bytes, in any pieces, through the whole of a connection.
//!
//! Most of this is hyper's to read, in the way in which the server has set it up. Whatever an input is, the connection
//! ends, and no answer says that the server has failed.

#![no_main]

use keymill::server::in_memory;
use keymill_fuzz::line::Sent;
use keymill_fuzz::{line, memory, world};
use libfuzzer_sys::fuzz_target;

/// What one connection may take: its buffers, a table of headers, and the pages for people as answers.
const BYTES_MAX: usize = 8 << 20;

fuzz_target!(|data: &[u8]| {
    let Some(sent) = Sent::read(data) else { return };
    // It may make a token, and nobody has it.
    let is_spoilt = sent.bytes.windows(7).any(|word| word == b"/tokens");
    memory::bounded(BYTES_MAX, || {
        world::enter(async |world| {
            let entrance = world.entrance(sent.entrance());
            let (served, client) = line::connection();
            let mut is_first = true;
            let talk = line::talk(client, sent, |answers| {
                // Where the next one begins, only their headers tell.
                if is_first && answers.starts_with(b"HTTP/1.") && answers.len() > 12 {
                    let status = &answers[9..12];
                    assert!(status[0] < b'5' || status == b"503", "{}", answers.escape_ascii());
                }
                is_first = false;
                answers.len()
            });
            tokio::join!(in_memory::serve_http(served, entrance.http), talk);
            is_spoilt
        });
    });
});
