//! The Redis protocol: any bytes, in any pieces, through the whole of a connection.
//!
//! Whatever an input is, every answer is one by the protocol, an error says something, and only the last answer of all may
//! be that the protocol was broken.

#![no_main]

use keymill::server::in_memory;
use keymill_fuzz::line::Sent;
use keymill_fuzz::resp::Answer;
use keymill_fuzz::{line, memory, resp, world};
use libfuzzer_sys::fuzz_target;

/// What one connection may take: its buffers, an answer on its way, and what the store needs to answer.
const BYTES_MAX: usize = 4 << 20;

fuzz_target!(|data: &[u8]| {
    let Some(sent) = Sent::read(data) else { return };
    memory::bounded(BYTES_MAX, || {
        world::enter(async |world| {
            let entrance = world.entrance(sent.entrance());
            let token = entrance.token.map(|token| {
                format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{token}\r\n", token.len()).into_bytes()
            });
            // Whoever waits for answers says when there are no more to come.
            let end: &[u8] = if sent.patience.is_zero() { b"" } else { b"*1\r\n$4\r\nQUIT\r\n" };
            let bytes = [token.as_deref().unwrap_or_default(), sent.bytes, end].concat();
            let (served, client) = line::connection();
            let mut is_over = false;
            let talk = line::talk(client, Sent { bytes: &bytes, ..sent }, |answers| {
                let mut used = 0;
                while let Some((answer, len)) = resp::read(&answers[used..]) {
                    assert!(!is_over, "there is an answer behind the last");
                    if let Answer::Error(text) = answer {
                        is_over = check(text);
                    }
                    used += len;
                }
                used
            });
            let ((), unread) = tokio::join!(in_memory::serve_redis(served, entrance.http), talk);
            assert!(unread.is_empty(), "half an answer: {}", unread.escape_ascii());
            false
        });
    });
});

/// Looks at the text of an error; whether it must be the last.
fn check(text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).expect("an error is text");
    let (code, sentence) = text.split_once(' ').expect("an error has a code and a sentence");
    let is_code = code.bytes().all(|byte| byte.is_ascii_uppercase());
    assert!(is_code && sentence.len() > 10, "not a clear error: {text}");
    assert!(!text.contains("internal"), "a stranger cannot make the server fail: {text}");
    sentence.starts_with("Protocol error")
}
