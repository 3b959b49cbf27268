//! A connection over HTTP/2, frame by frame, for what no client does: it reads nothing, or sends no end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How many requests one HTTP/2 connection may have under way.
pub(super) const STREAMS: u32 = 64;
/// The largest body of a request.
pub(super) const BODY_LEN: usize = 64 << 10;

/// A connection, and what is known of HTTP/2 to use it.
pub(super) struct Http2 {
    stream: TcpStream,
}

impl Http2 {
    pub(super) fn connect(to: SocketAddr) -> Http2 {
        Http2::with_settings(to, &[])
    }

    /// One that allows no byte of any body to be sent: its initial window (4) is nothing.
    pub(super) fn deaf(to: SocketAddr) -> Http2 {
        Http2::with_settings(to, &[0, 4, 0, 0, 0, 0])
    }

    fn with_settings(to: SocketAddr, settings: &[u8]) -> Http2 {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&frame(4, 0, 0, settings)).unwrap();
        Http2 { stream }
    }

    /// Sends a request without a body; its head is a block of headers.
    pub(super) fn request(&mut self, stream: u32, head: &[u8]) {
        self.stream.write_all(&frame(1, 0x5, stream, head)).unwrap();
    }

    pub(super) fn take_on_all_streams(&mut self, space: &str, count: u32) {
        let path = format!("/v1/spaces/{space}/keys?count={count}");
        // POST and http from the static table, then path and authority as they are.
        let mut head = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        head.extend_from_slice(path.as_bytes());
        head.extend_from_slice(b"\x01\x09localhost");
        let frames: Vec<u8> =
            (0..STREAMS).flat_map(|number| frame(1, 0x5, 2 * number + 1, &head)).collect();
        self.stream.write_all(&frames).unwrap();
    }

    /// Asks for a thousand digests on every stream.
    pub(super) fn digest_on_all_streams(&mut self, space: &str) {
        let path = format!("/v1/spaces/{space}/digests");
        let inputs: Vec<String> = (0..1_000).map(|number| format!("\"{number}\"")).collect();
        let body = format!("{{\"inputs\":[{}]}}", inputs.join(","));
        let mut head = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        head.extend_from_slice(path.as_bytes());
        head.extend_from_slice(b"\x01\x09localhost\x0f\x10\x10application/json");
        self.send_bodies(&head, body.as_bytes(), true);
    }

    /// Asks on every stream for the contract of gRPC, many times, and leaves the streams open.
    pub(super) fn reflect_on_all_streams(&mut self) {
        const PATH: &[u8] = b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        let mut head = vec![0x83, 0x86, 0x04, u8::try_from(PATH.len()).unwrap()];
        head.extend_from_slice(PATH);
        head.extend_from_slice(b"\x01\x09localhost\x0f\x10\x10application/grpc");
        // The file that has a symbol: field 4, behind the head of a message.
        let ask = b"\0\0\0\0\x14\x22\x12keymill.v1.Keymill";
        self.send_bodies(&head, &ask.repeat(30), false);
    }

    /// Begins a request with large headers and a large body on every stream, and sends as much of the
    /// bodies as the server lets it, but for the last byte of each.
    pub(super) fn send_bodies_without_end(&mut self) {
        let mut head =
            b"\x02\x03PUT\x86\x04\x0c/v1/spaces/x\x01\x09localhost\x0f\x0d\x0565536".to_vec();
        // 7,000 bytes: the length has 7 bits, then 7 more in each byte.
        head.extend_from_slice(b"\x00\x03big\x7f\xd9\x35");
        head.extend_from_slice(&[b'x'; 7_000]);
        self.send_bodies(&head, &[b' '; BODY_LEN - 1], false);
    }

    /// Sends one body on every stream, as flow control allows, until nothing more is allowed for a
    /// while.
    fn send_bodies(&mut self, head: &[u8], body: &[u8], ends: bool) {
        let mut windows = [65_535_i64; STREAMS as usize + 1];
        let mut sent = [0; STREAMS as usize];
        for number in 0..STREAMS {
            self.stream.write_all(&frame(1, 0x4, 2 * number + 1, head)).unwrap();
        }
        self.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        loop {
            for (number, sent) in sent.iter_mut().enumerate() {
                let room = windows[0].min(windows[number + 1]).clamp(0, 16 << 10);
                let len = usize::try_from(room).unwrap().min(body.len() - *sent);
                if len > 0 {
                    let (at, id) = (*sent, 2 * u32::try_from(number).unwrap() + 1);
                    *sent += len;
                    let flags = u8::from(ends && *sent == body.len());
                    self.stream.write_all(&frame(0, flags, id, &body[at..*sent])).unwrap();
                    windows[0] -= i64::try_from(len).unwrap();
                    windows[number + 1] -= i64::try_from(len).unwrap();
                }
            }
            let Some((kind, id, payload)) = self.read_frame() else { return };
            let number = |bytes: &[u8]| i64::from(u32::from_be_bytes(bytes.try_into().unwrap()));
            match kind {
                // SETTINGS, in which 4 is the window of streams.
                4 => payload.chunks(6).filter(|it| it[..2] == [0, 4]).for_each(|it| {
                    windows[1..].iter_mut().for_each(|window| *window += number(&it[2..]) - 65_535);
                }),
                // WINDOW_UPDATE.
                8 => windows[id as usize / 2 + usize::from(id > 0)] += number(&payload),
                _ => {}
            }
        }
    }

    /// The next frame: its type, its stream and its payload; `None` where none comes for a while.
    pub(super) fn read_frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut start = [0; 9];
        self.stream.read_exact(&mut start).ok()?;
        let len = u32::from_be_bytes([0, start[0], start[1], start[2]]);
        let mut payload = vec![0; len as usize];
        self.stream.read_exact(&mut payload).unwrap();
        let stream = u32::from_be_bytes([start[5], start[6], start[7], start[8]]);
        Some((start[3], stream, payload))
    }

    /// Waits until every stream was answered with a status line.
    pub(super) fn read_heads(&mut self) {
        let mut heads = 0;
        while heads < STREAMS {
            let (kind, _, _) = self.read_frame().expect("every stream is answered");
            assert!([1, 4, 6, 8].contains(&kind), "a frame of type {kind}");
            heads += u32::from(kind == 1);
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![len[1], len[2], len[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}
