//! The normal form of a URL, by RFC 3986: URLs that mean the same by the rules of their syntax
//! become one text.
//!
//! `digest` calls it before it hashes. It knows no network and no names: hosts are neither looked
//! up nor turned into Punycode, and an IPv6 address keeps the zeros it was written with.
//!
//! # Invariants
//!
//! - The normal form is a URI in ASCII, and its own normal form; so is the decoded one.
//! - What is refused is not a URL. Everything else has a normal form: characters that a URI may
//!   not have where they stand are percent-encoded as UTF-8. That includes a `%` without two hex
//!   digits behind it, which becomes `%25`: RFC 3986 has no meaning for it, but the URLs that
//!   people paste have it ("100%"), and servers take it for itself.

/// Why a text is not a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Nothing says what kind of URL it is.
    #[error("it has no scheme, such as `https:`")]
    NoScheme,
    /// What stands before the first colon is no scheme.
    #[error("its scheme must be a letter, then letters, digits, `+`, `-` or `.`")]
    Scheme,
    /// The brackets around an IPv6 address are not where they belong.
    #[error("a host in brackets ends with `]`, and only a port can follow")]
    Brackets,
    /// A port is not a number.
    #[error("what follows the `:` of its host is not a port")]
    Port,
    /// No URL has one, and two that differ in one look the same.
    #[error("it has a control character at byte {at}")]
    ControlCharacter {
        /// Its index in the text without the white space around it, and decoded if it is to be.
        at: usize,
    },
}

/// The normal form: white space around the URL removed, scheme and host in lower case, escapes in
/// upper case and only where they are needed, no dot segments, no default port, no empty path
/// behind a host. User info, query and fragment stay, empty ones too.
pub(super) fn url(text: &str) -> Result<String, UrlError> {
    let Parts { scheme, authority, path, query, fragment } = Parts::of(text.trim())?;
    let scheme = scheme.to_ascii_lowercase();
    let mut out = format!("{scheme}:");
    if let Some(authority) = authority {
        out.push_str("//");
        push_authority(authority, &scheme, &mut out)?;
    }
    let path = without_dot_segments(&part(path, b":@/"));
    match authority {
        Some(_) if path.is_empty() => out.push('/'),
        // Right behind the scheme, two slashes would make a host of what is a path.
        None if path.starts_with("//") => out.push_str("/."),
        _ => {}
    }
    out.push_str(&path);
    for (mark, text) in [('?', query), ('#', fragment)] {
        if let Some(text) = text {
            out.push(mark);
            out.push_str(&part(text, b":@/?"));
        }
    }
    Ok(out)
}

/// The normal form of the URL with every escape of a printable character decoded, so that
/// `%3Fid%3D` is `?id=`.
///
/// What the escapes kept apart is one afterwards, `?q=a%26b` and `?q=a&b` for example: this is
/// for those whose users escape whole URLs, and who accept that.
pub(super) fn url_decoded(text: &str) -> Result<String, UrlError> {
    url(&decoded(text))
}

/// A URL taken apart, with nothing changed.
struct Parts<'a> {
    scheme: &'a str,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Parts<'a>, UrlError> {
        if let Some(at) = text.find(char::is_control) {
            return Err(UrlError::ControlCharacter { at });
        }
        let (scheme, rest) = text.split_once(':').ok_or(UrlError::NoScheme)?;
        if scheme.is_empty() || scheme.contains(['/', '?', '#']) {
            return Err(UrlError::NoScheme);
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(fits) {
            return Err(UrlError::Scheme);
        }
        let (rest, fragment) = cut(rest, '#');
        let (rest, query) = cut(rest, '?');
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (Some(authority), path)
            }
            None => (None, rest),
        };
        Ok(Parts { scheme, authority, path, query, fragment })
    }
}

/// Writes user info, host and port.
fn push_authority(authority: &str, scheme: &str, out: &mut String) -> Result<(), UrlError> {
    // The last `@` counts, as in browsers: earlier ones are of a password that was not escaped.
    let host_and_port = match authority.rsplit_once('@') {
        Some((user_info, rest)) => {
            out.push_str(&part(user_info, b":"));
            out.push('@');
            rest
        }
        None => authority,
    };
    let port = match host_and_port.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or(UrlError::Brackets)?;
            out.push('[');
            out.push_str(&lower_part(address, b":"));
            out.push(']');
            match rest {
                "" => None,
                _ => Some(rest.strip_prefix(':').ok_or(UrlError::Brackets)?),
            }
        }
        None => {
            let (host, port) = cut(host_and_port, ':');
            out.push_str(&lower_part(host, b""));
            port
        }
    };
    push_port(port.unwrap_or_default(), scheme, out)
}

/// Writes a port, unless it is the one that the scheme has anyway.
fn push_port(port: &str, scheme: &str, out: &mut String) -> Result<(), UrlError> {
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(UrlError::Port);
    }
    let number = match port.trim_start_matches('0') {
        "" if port.is_empty() => return Ok(()),
        "" => "0",
        number => number,
    };
    if default_port(scheme) != Some(number) {
        out.push(':');
        out.push_str(number);
    }
    Ok(())
}

fn default_port(scheme: &str) -> Option<&'static str> {
    match scheme {
        "http" | "ws" => Some("80"),
        "https" | "wss" => Some("443"),
        "ftp" => Some("21"),
        _ => None,
    }
}

/// The path without its `.` and `..` segments, as section 5.2.4 removes them.
fn without_dot_segments(path: &str) -> String {
    let mut rest = path;
    while let Some(after) = rest.strip_prefix("../").or_else(|| rest.strip_prefix("./")) {
        rest = after;
    }
    let mut out = String::with_capacity(rest.len());
    if matches!(rest, "." | "..") {
        return out;
    }
    while !rest.is_empty() {
        // A segment has its slash in front; only the first one can be without.
        let end = rest[1..].find('/').map_or(rest.len(), |at| at + 1);
        let (segment, after) = rest.split_at(end);
        if matches!(segment, "/." | "/..") {
            if segment == "/.." {
                out.truncate(out.rfind('/').unwrap_or(0));
            }
            // What a dot segment at the end names is a folder.
            if after.is_empty() {
                out.push('/');
            }
        } else {
            out.push_str(segment);
        }
        rest = after;
    }
    out
}

/// A part of a URL with its escapes in normal form. Besides the characters that may be anywhere,
/// those in `also` stand for themselves.
fn part(text: &str, also: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, is_plain, after) = match escape(rest) {
            // Any other escape may be there to keep a character from being a delimiter.
            Some(byte) => (byte, is_unreserved(byte), &rest[3..]),
            None => {
                let fits = is_unreserved(first) || is_sub_delim(first) || also.contains(&first);
                (first, fits, after)
            }
        };
        if is_plain {
            out.push(char::from(byte));
        } else {
            push_escape(byte, &mut out);
        }
        rest = after;
    }
    out
}

/// A part in lower case, its escapes excepted: the second round raises them again.
fn lower_part(text: &str, also: &[u8]) -> String {
    part(&part(text, also).to_ascii_lowercase(), also)
}

/// The text without escapes of printable characters, those that decoding brings about included:
/// `%2541` is `%41` is `A`.
///
/// To decode only once would not be idempotent. An escape cannot overlap another, so the order
/// of decoding is of no matter, and one walk that looks back gives what decoding again and again
/// would: each step makes the text shorter, so there is nothing to bound.
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        out.push(c);
        while let Some(byte) = printable_escape_at_end(&out) {
            out.truncate(out.len() - 3);
            out.push(char::from(byte));
        }
    }
    out
}

/// A space is not among them: it would be escaped again.
fn printable_escape_at_end(text: &str) -> Option<u8> {
    let start = text.len().checked_sub(3)?;
    escape(&text.as_bytes()[start..]).filter(u8::is_ascii_graphic)
}

/// The byte that an escape at the beginning stands for.
fn escape(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [b'%', high, low, ..] => Some((hex_digit(*high)? << 4) | hex_digit(*low)?),
        _ => None,
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn push_escape(byte: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn is_sub_delim(byte: u8) -> bool {
    b"!$&'()*+,;=".contains(&byte)
}

/// What is before and what is after the first delimiter, if there is one.
fn cut(text: &str, delimiter: char) -> (&str, Option<&str>) {
    match text.split_once(delimiter) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests;
