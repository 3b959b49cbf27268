//! Who may do what, asked over HTTP/2: there the authority stands in place of `Host`.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Instance;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

#[tokio::test]
async fn the_authority_counts_as_the_host() {
    let instance = Instance::start().await;
    for own in ["localhost", "localhost:8080", "127.0.0.1", "[::1]:8080"] {
        let key = ask(instance.address, ("GET", "/get-key", own), &[]).await;
        assert_eq!(key.len(), 7, "{own}: {key}");
    }
    for foreign in ["evil.example", "localhost.evil.example", "10.0.0.1:8080"] {
        for (method, path) in
            [("GET", "/get-key"), ("POST", "/v1/spaces/default/keys"), ("GET", "/v1/spaces")]
        {
            let refusal = ask(instance.address, (method, path, foreign), &[]).await;
            assert!(refusal.contains("\"foreign_host\""), "{path} at {foreign}: {refusal}");
        }
        assert_eq!(ask(instance.address, ("GET", "/healthz", foreign), &[]).await, "ok\n");
    }
}

#[tokio::test]
async fn a_host_beside_the_authority_is_the_same() {
    let instance = Instance::start().await;
    let take = async |host: &str| {
        ask(instance.address, ("GET", "/get-key", "localhost"), &[("host", host)]).await
    };
    assert_eq!(take("localhost").await.len(), 7);
    for host in ["evil.example", "localhost:8080"] {
        let refusal = take(host).await;
        assert!(refusal.contains("\"bad_host\""), "{host}: {refusal}");
    }
}

#[tokio::test]
async fn an_origin_is_compared_with_the_authority() {
    let instance = Instance::start().await;
    let take = async |headers: &[(&str, &str)]| {
        ask(instance.address, ("GET", "/get-key", "localhost:8080"), headers).await
    };
    assert_eq!(take(&[("origin", "http://localhost:8080")]).await.len(), 7);
    let foreign = [("origin", "http://localhost:9090"), ("sec-fetch-site", "cross-site")];
    for header in foreign {
        let refusal = take(&[header]).await;
        assert!(refusal.contains("\"foreign_origin\""), "{header:?}: {refusal}");
    }
}

#[tokio::test]
async fn a_token_is_needed_for_every_request_of_a_connection() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    let bearer = format!("Bearer {admin}");
    let get_key = ("GET", "/get-key", "localhost");
    let with = ask(instance.address, get_key, &[("authorization", &bearer)]).await;
    assert_eq!(with.len(), 7, "{with}");
    let without = ask(instance.address, get_key, &[]).await;
    assert!(without.contains("\"unauthorized\""), "{without}");
    // A token admits its own request, and not the next one on the same connection.
    let mut stream = connect(instance.address).await;
    let first = request(1, get_key, &[("authorization", &bearer)]);
    let second = request(3, get_key, &[]);
    stream.write_all(&[first, second].concat()).await.unwrap();
    let mut bodies = [String::new(), String::new()];
    for _ in 0..2 {
        let (number, body) = read_body(&mut stream).await;
        bodies[usize::from(number == 3)] = body;
    }
    assert_eq!(bodies[0].len(), 7, "{}", bodies[0]);
    assert!(bodies[1].contains("\"unauthorized\""), "{}", bodies[1]);
}

/// Sends one request, by method, path and authority; the body of its answer.
pub(super) async fn ask(
    address: SocketAddr,
    what: (&str, &str, &str),
    headers: &[(&str, &str)],
) -> String {
    let mut stream = connect(address).await;
    stream.write_all(&request(1, what, headers)).await.unwrap();
    read_body(&mut stream).await.1
}

async fn connect(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
    stream
}

/// A request without a body, its headers in literals that nobody has to remember.
fn request(
    number: u8,
    (method, path, authority): (&str, &str, &str),
    headers: &[(&str, &str)],
) -> Vec<u8> {
    let pseudo =
        [(":method", method), (":scheme", "http"), (":path", path), (":authority", authority)];
    let mut block = Vec::new();
    for (name, value) in pseudo.iter().chain(headers) {
        block.push(0);
        for text in [name, value] {
            // From 127 on, what is beyond that follows.
            let len = u8::try_from(text.len()).ok().filter(|len| *len < 255);
            let len = len.expect("it is short");
            block.push(len.min(127));
            block.extend(len.checked_sub(127));
            block.extend_from_slice(text.as_bytes());
        }
    }
    let [_, _, high, low] = u32::try_from(block.len()).unwrap().to_be_bytes();
    let mut frame = vec![0, high, low, HEADERS, END_STREAM | END_HEADERS, 0, 0, 0, number];
    frame.append(&mut block);
    frame
}

/// The body of the next answer that ends, and the number of its stream. Bodies here have one piece.
async fn read_body(stream: &mut TcpStream) -> (u8, String) {
    let read = async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).await.unwrap();
            let (kind, flags, number) = (head[3], head[4], head[8]);
            if kind == DATA && !payload.is_empty() {
                return (number, String::from_utf8(payload).unwrap());
            }
            let ended = number > 0 && flags & END_STREAM != 0;
            assert!(kind > HEADERS || !ended, "an answer has no body");
        }
    };
    tokio::time::timeout(Duration::from_secs(10), read).await.expect("an answer comes")
}
