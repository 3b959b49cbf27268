//! The PROXY protocol, versions 1 and 2: the first bytes of a connection in which a proxy names its
//! client.
//!
//! `accept` reads it from trusted proxies, and never from anybody else. Both versions are bounded in
//! size; `accept` bounds the time. A proxy sends its header at once, so one look at what has arrived
//! tells whether there is one; a connection without it is left as it is, byte for byte.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::AsyncReadExt;

use super::listeners::Socket;

const V1_START: &[u8] = b"PROXY ";
/// The longest line of version 1, by its specification.
const V1_LEN_MAX: usize = 107;
const V2_START: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_HEAD_LEN: usize = 16;
/// What version 2 may carry behind its head: addresses, and a proxy's notes, which are passed over.
const V2_REST_MAX: usize = 2_048;

/// The client that the proxy at the other end names; `None` where it names nobody, or speaks for
/// itself.
pub(super) async fn read(stream: &mut Socket) -> io::Result<Option<IpAddr>> {
    let mut start = [0; V1_LEN_MAX];
    let count = stream.peek(&mut start).await?;
    let start = &start[..count];
    if start.starts_with(V2_START) {
        let mut head = [0; V2_HEAD_LEN];
        stream.read_exact(&mut head).await?;
        let rest_len = usize::from(u16::from_be_bytes([head[14], head[15]]));
        if rest_len > V2_REST_MAX {
            return Err(broken("it is too long"));
        }
        let mut rest = vec![0; rest_len];
        stream.read_exact(&mut rest).await?;
        return parse_v2(head[12], head[13], &rest);
    }
    if start.starts_with(V1_START) {
        let end = start.windows(2).position(|pair| pair == b"\r\n");
        let end = end.ok_or_else(|| broken("its line does not end"))?;
        let mut line = [0; V1_LEN_MAX];
        stream.read_exact(&mut line[..end + 2]).await?;
        return parse_v1(&line[..end]);
    }
    Ok(None)
}

fn parse_v2(version_and_command: u8, family: u8, rest: &[u8]) -> io::Result<Option<IpAddr>> {
    match version_and_command {
        // The proxy looks whether we are alive.
        0x20 => return Ok(None),
        0x21 => {}
        _ => return Err(broken("its version or command is unknown")),
    }
    // Source address first, then the destination's, then both ports.
    let source = match family >> 4 {
        1 => rest
            .first_chunk::<12>()
            .and_then(|all| all.first_chunk::<4>())
            .map(|source| IpAddr::V4(Ipv4Addr::from(*source))),
        2 => rest
            .first_chunk::<36>()
            .and_then(|all| all.first_chunk::<16>())
            .map(|source| IpAddr::V6(Ipv6Addr::from(*source))),
        // Neither IPv4 nor IPv6: by the specification, the proxy's own address counts.
        _ => return Ok(None),
    };
    source.map(Some).ok_or_else(|| broken("its addresses are cut short"))
}

fn parse_v1(line: &[u8]) -> io::Result<Option<IpAddr>> {
    let refuse = || broken("its line is not of the form PROXY TCP4 SOURCE DESTINATION PORT PORT");
    let line = std::str::from_utf8(line).map_err(|_| refuse())?;
    let mut words = line.split(' ').skip(1);
    let (family, source) = (words.next(), words.next().map(str::parse::<IpAddr>));
    // The destination and both ports.
    let is_whole = words.count() == 3;
    match (family, source) {
        (Some("UNKNOWN"), _) => Ok(None),
        (Some("TCP4"), Some(Ok(source @ IpAddr::V4(_)))) if is_whole => Ok(Some(source)),
        (Some("TCP6"), Some(Ok(source @ IpAddr::V6(_)))) if is_whole => Ok(Some(source)),
        _ => Err(refuse()),
    }
}

fn broken(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the PROXY header is invalid: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_names_its_source() {
        let source = |line: &str| parse_v1(line.as_bytes());
        let found = source("PROXY TCP4 192.0.2.1 198.51.100.1 4711 80").unwrap();
        assert_eq!(found, Some("192.0.2.1".parse().unwrap()));
        let found = source("PROXY TCP6 2001:db8::1 ::1 4711 80").unwrap();
        assert_eq!(found, Some("2001:db8::1".parse().unwrap()));
        assert_eq!(source("PROXY UNKNOWN").unwrap(), None);
        for line in ["PROXY ", "PROXY TCP4 x y 1 2", "PROXY TCP4 ::1 ::1 1 2", "PROXY TCP4 1.2.3.4"]
        {
            assert!(source(line).is_err(), "{line}");
        }
    }

    #[test]
    fn version_2_names_its_source_where_it_speaks_for_another() {
        let v4 = [192, 0, 2, 1, 198, 51, 100, 1, 0x12, 0x67, 0, 80, 4, 0, 1, 0];
        assert_eq!(parse_v2(0x21, 0x11, &v4).unwrap(), Some("192.0.2.1".parse().unwrap()));
        let mut v6 = [0; 36];
        v6[15] = 7;
        assert_eq!(parse_v2(0x21, 0x21, &v6).unwrap(), Some("::7".parse().unwrap()));
        assert_eq!(parse_v2(0x20, 0, &[]).unwrap(), None);
        assert_eq!(parse_v2(0x21, 0x31, &[0; 216]).unwrap(), None);
        assert!(parse_v2(0x21, 0x11, &v4[..11]).is_err());
        assert!(parse_v2(0x21, 0x21, &v6[..35]).is_err());
        assert!(parse_v2(0x31, 0x11, &v4).is_err());
    }
}
