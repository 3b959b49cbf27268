//! The head of an answer, as far as it matters, and bodies in chunks.

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Where the body begins.
    pub(super) end: usize,
    pub(super) body: Body,
    /// Whether the server closes the connection after it.
    pub(super) closes: bool,
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Length(usize),
    Chunked,
}

impl Head {
    /// Reads the head; `None` if it is not complete.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Head>, String> {
        let Some((first, mut at)) = line(bytes, 0) else { return Ok(None) };
        let status = match first {
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0' | b'1', b' ', code @ ..] => {
                status(code)
            }
            _ => None,
        };
        let Some(status) = status else {
            return Err(format!("`{}` is not HTTP", first[..first.len().min(40)].escape_ascii()));
        };
        // Before version 1.1, connections are closed by default.
        let mut head = Head { status, end: 0, body: Body::Length(0), closes: first[7] == b'0' };
        let mut has_length = matches!(status, 100..=199 | 204 | 304);
        loop {
            let Some((header, next)) = line(bytes, at) else { return Ok(None) };
            at = next;
            if header.is_empty() {
                break;
            }
            // Nearly all headers are passed over by their first letter.
            match header[0] | 0x20 {
                b'c' => {
                    if let Some(value) = value(header, b"content-length:") {
                        head.body =
                            Body::Length(number(value, 10).ok_or("a wrong Content-Length")?);
                        has_length = true;
                    } else if let Some(value) = value(header, b"connection:") {
                        head.closes = value.eq_ignore_ascii_case(b"close");
                    }
                }
                b't' if value(header, b"transfer-encoding:").is_some() => {
                    head.body = Body::Chunked;
                    has_length = true;
                }
                _ => {}
            }
        }
        if !has_length {
            return Err("the answer does not say how long it is".to_owned());
        }
        head.end = at;
        Ok(Some(head))
    }
}

/// The body that chunks are parts of; `None` if it is not complete.
pub(super) fn dechunk(bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let (mut body, mut at) = (Vec::with_capacity(bytes.len()), 0);
    loop {
        let Some((size, next)) = line(bytes, at) else { return Ok(None) };
        // What follows a semicolon is an extension.
        let size = size.split(|byte| *byte == b';').next().unwrap_or(size);
        let size = number(size.trim_ascii(), 16).ok_or("a chunk without its length")?;
        if size == 0 {
            at = next;
            break;
        }
        let end = next.saturating_add(size);
        let Some(chunk) = bytes.get(next..end) else { return Ok(None) };
        body.extend_from_slice(chunk);
        let Some((rest, next)) = line(bytes, end) else { return Ok(None) };
        if !rest.is_empty() {
            return Err("a chunk is longer than it says".to_owned());
        }
        at = next;
    }
    // Trailers, up to an empty line.
    loop {
        let Some((trailer, next)) = line(bytes, at) else { return Ok(None) };
        at = next;
        if trailer.is_empty() {
            return Ok(Some(body));
        }
    }
}

/// The line that begins at `at`, without its end, and where the next one begins.
fn line(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(at..)?;
    let len = rest.iter().position(|byte| *byte == b'\n')?;
    let line = &rest[..len];
    Some((line.strip_suffix(b"\r").unwrap_or(line), at + len + 1))
}

/// The value of a header, if it has this name, which is in lower case and ends with a colon.
fn value<'a>(header: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, value) = header.split_at_checked(name.len())?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

/// The three digits of a status, which a reason may follow.
fn status(text: &[u8]) -> Option<u16> {
    let (digits, rest) = text.split_at_checked(3)?;
    let is_ended = rest.is_empty() || rest[0] == b' ';
    let status = number(digits, 10).filter(|status| is_ended && (100..600).contains(status));
    status.and_then(|status| u16::try_from(status).ok())
}

fn number(text: &[u8], radix: u32) -> Option<usize> {
    let is_number = text.first()?.is_ascii_hexdigit();
    let text = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    usize::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nContent-Length: 8\r\n\r\nabcdefg\n";

    #[test]
    fn a_head_is_read_once_it_is_complete() {
        let end = OK.len() - 8;
        for len in 0..end {
            assert_eq!(Head::read(&OK.as_bytes()[..len]), Ok(None), "{len} bytes");
        }
        let expected = Head { status: 200, end, body: Body::Length(8), closes: false };
        assert_eq!(Head::read(OK.as_bytes()), Ok(Some(expected)));
    }

    #[test]
    fn what_matters_of_a_head_is_found() {
        for (text, status, body, closes) in [
            (
                "HTTP/1.1 503 No\r\nConnection: close\r\ncontent-length:0\r\n\r\n",
                503,
                Body::Length(0),
                true,
            ),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n", 200, Body::Chunked, false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", 200, Body::Length(1), true),
            ("HTTP/1.1 204\r\nCache-Control: x\r\n\r\n", 204, Body::Length(0), false),
        ] {
            let head = Head::read(text.as_bytes()).unwrap().unwrap();
            assert_eq!((head.status, head.body, head.closes), (status, body, closes), "{text}");
        }
    }

    #[test]
    fn what_is_not_http_is_refused() {
        for text in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 2\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        ] {
            assert!(Head::read(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn chunks_are_put_together() {
        let whole = b"5;x=y\r\nabc\nd\r\n1\r\n\n\r\n0\r\nTrailer: x\r\n\r\n";
        assert_eq!(dechunk(whole), Ok(Some(b"abc\nd\n".to_vec())));
        for len in 0..whole.len() {
            assert_eq!(dechunk(&whole[..len]), Ok(None), "{len} bytes");
        }
        for wrong in [&b"x\r\n"[..], b"1\r\nab\r\n", b"\r\n", b"+1\r\na\r\n"] {
            assert!(dechunk(wrong).is_err(), "{wrong:?}");
        }
    }
}
