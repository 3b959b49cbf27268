//! HTTP/2, frame by frame: what counts as activity, and how it is told that the server stops.

use std::time::Duration;

use keymill::server::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::read_to_end;
use crate::http::Instance;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0keymill!";
/// `GET /healthz` on stream 1, in literals without indexing.
const REQUEST: &[u8] = b"\0\0\x0f\x01\x05\0\0\0\x01\x82\x86\x04\x08/healthz\x41\x01k";
const GOAWAY: u8 = 7;

#[tokio::test]
async fn the_limit_for_headers_holds_for_what_opens_a_connection() {
    let limits =
        ServerLimits { header_time_max: Duration::from_millis(200), ..ServerLimits::default() };
    let instance = Instance::start_with(limits).await;
    for start in [&PREFACE[..3], PREFACE] {
        let mut stream = TcpStream::connect(instance.address).await.unwrap();
        stream.write_all(start).await.unwrap();
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut bytes));
        assert!(read.await.is_ok(), "still open after {} bytes", start.len());
    }
}

#[tokio::test]
async fn an_idle_connection_ends_however_often_it_pings() {
    let limits =
        ServerLimits { idle_time_max: Duration::from_millis(300), ..ServerLimits::default() };
    let instance = Instance::start_with(limits).await;
    let stream = TcpStream::connect(instance.address).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    write.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
    let pings = tokio::spawn(async move {
        while write.write_all(PING).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut bytes = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(15), read.read_to_end(&mut bytes)).await;
    pings.abort();
    assert!(ended.is_ok(), "still open");
}

#[tokio::test]
async fn a_stop_is_told_by_two_goaways_and_answers_what_crosses_the_first() {
    let mut instance = Instance::start().await;
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    stream.write_all(&[PREFACE, SETTINGS, REQUEST].concat()).await.unwrap();
    // Its own SETTINGS, the answer's HEADERS and DATA among others.
    while read_frame(&mut stream).await.kind != 0 {}
    instance.stop.take().unwrap().send(()).unwrap();
    let mut last_streams = Vec::new();
    let mut has_answer = false;
    while last_streams.len() < 2 {
        let frame = read_frame(&mut stream).await;
        match frame.kind {
            GOAWAY => last_streams.push(u32::from_be_bytes(frame.payload[..4].try_into().unwrap())),
            // Asked after the first GOAWAY was sent: it crosses it on the way.
            6 if frame.flags == 0 => {
                let mut second = REQUEST.to_vec();
                second[8] = 3;
                stream.write_all(&second).await.unwrap();
                let mut pong = PING.to_vec();
                pong[4] = 1;
                pong[9..].copy_from_slice(&frame.payload);
                stream.write_all(&pong).await.unwrap();
            }
            0 => has_answer = true,
            _ => {}
        }
    }
    assert_eq!(last_streams, [0x7fff_ffff, 3]);
    while !has_answer {
        has_answer = read_frame(&mut stream).await.kind == 0;
    }
    drop(stream);
    let ended = tokio::time::timeout(Duration::from_secs(8), &mut instance.ended).await;
    ended.expect("nothing is open").unwrap();
}

#[tokio::test]
async fn a_connection_that_is_cut_off_in_its_preface_says_nothing() {
    let limits =
        ServerLimits { header_time_max: Duration::from_millis(100), ..ServerLimits::default() };
    let instance = Instance::start_with(limits).await;
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    stream.write_all(&PREFACE[..20]).await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, "");
}

struct Frame {
    kind: u8,
    flags: u8,
    payload: Vec<u8>,
}

async fn read_frame(stream: &mut TcpStream) -> Frame {
    let read = async {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await.unwrap();
        Frame { kind: head[3], flags: head[4], payload }
    };
    tokio::time::timeout(Duration::from_secs(10), read).await.expect("a frame comes")
}
