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
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_3986_section_6_come_out_alike() {
        check("example://a/b/c/%7Bfoo%7D", "example://a/b/c/%7Bfoo%7D");
        check("eXAMPLE://a/./b/../b/%63/%7bfoo%7d", "example://a/b/c/%7Bfoo%7D");
        check("HTTP://www.EXAMPLE.com/", "http://www.example.com/");
        check("http://a/%3a", "http://a/%3A");
        check("http://example.com", "http://example.com/");
        check("http://example.com/", "http://example.com/");
        check("http://example.com:/", "http://example.com/");
        check("http://example.com:80/", "http://example.com/");
    }

    #[test]
    fn the_examples_of_rfc_3986_section_5_lose_their_dot_segments() {
        check("x:/a/b/c/./../../g", "x:/a/g");
        check("x:mid/content=5/../6", "x:mid/6");
        for (path, expected) in [
            ("/b/c/g", "/b/c/g"),
            ("/b/c/./g", "/b/c/g"),
            ("/b/c/g/", "/b/c/g/"),
            ("/b/c/.", "/b/c/"),
            ("/b/c/./", "/b/c/"),
            ("/b/c/..", "/b/"),
            ("/b/c/../", "/b/"),
            ("/b/c/../g", "/b/g"),
            ("/b/c/../..", "/"),
            ("/b/c/../../", "/"),
            ("/b/c/../../g", "/g"),
            ("/b/c/../../../g", "/g"),
            ("/b/c/../../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("/b/c/g.", "/b/c/g."),
            ("/b/c/.g", "/b/c/.g"),
            ("/b/c/g..", "/b/c/g.."),
            ("/b/c/..g", "/b/c/..g"),
            ("/b/c/./../g", "/b/g"),
            ("/b/c/./g/.", "/b/c/g/"),
            ("/b/c/g/./h", "/b/c/g/h"),
            ("/b/c/g/../h", "/b/c/h"),
            ("/b/c/g;x=1/./y", "/b/c/g;x=1/y"),
            ("/b/c/g;x=1/../y", "/b/c/y"),
        ] {
            check(&format!("http://a{path}"), &format!("http://a{expected}"));
        }
        check("http://a/b/c/g?y/../x", "http://a/b/c/g?y/../x");
        check("http://a/b/c/g#s/../x", "http://a/b/c/g#s/../x");
    }

    #[test]
    fn escaped_dots_are_dots_and_escaped_slashes_are_not_slashes() {
        check("http://a/b/%2E%2e/c", "http://a/c");
        check("http://a/b/..%2fc", "http://a/b/..%2Fc");
        check("http://a/b//../c", "http://a/b/c");
    }

    #[test]
    fn a_path_never_turns_into_a_host() {
        check("x:/.//b", "x:/.//b");
        check("x:a/..//b", "x:/.//b");
        check("x:/%2E//b", "x:/.//b");
        check("x://h//b", "x://h//b");
    }

    #[test]
    fn default_ports_are_left_out_and_others_kept() {
        for (scheme, port) in [("http", 80), ("https", 443), ("ftp", 21), ("ws", 80), ("wss", 443)]
        {
            check(&format!("{scheme}://a:{port}/"), &format!("{scheme}://a/"));
            check(&format!("{scheme}://a:{port}0/"), &format!("{scheme}://a:{port}0/"));
        }
        check("HTTP://a:80", "http://a/");
        check("http://a:443/", "http://a:443/");
        check("gopher://a:70/", "gopher://a:70/");
        check("http://a:0080/", "http://a/");
        check("http://a:08080/", "http://a:8080/");
        check("http://a:00/", "http://a:0/");
    }

    #[test]
    fn user_info_is_kept_as_it_is() {
        check("http://User:Pass@Example.com/", "http://User:Pass@example.com/");
        check("ftp://u%7Ev:p%40@h:21/", "ftp://u~v:p%40@h/");
        check("http://u:p@ss@h/", "http://u:p%40ss@h/");
        check("http://@h/", "http://@h/");
    }

    #[test]
    fn hosts_are_in_lower_case_and_their_escapes_are_not() {
        check("http://EX%41MPLE.com/", "http://example.com/");
        check("http://B%c3%BCcher.de/", "http://b%C3%BCcher.de/");
        check("http://Bücher.de/", "http://b%C3%BCcher.de/");
        check("http://127.0.0.1:80/", "http://127.0.0.1/");
        check("file:///Etc/hosts", "file:///Etc/hosts");
    }

    #[test]
    fn ipv6_addresses_stay_in_their_brackets() {
        check("http://[2001:DB8::A]", "http://[2001:db8::a]/");
        check("http://[::1]:80/", "http://[::1]/");
        check("http://u@[::1]:8080/", "http://u@[::1]:8080/");
        check("http://[::1]:/", "http://[::1]/");
        check("http://[fe80::1%25En0]/", "http://[fe80::1%25en0]/");
    }

    #[test]
    fn query_and_fragment_stay_and_so_do_their_empty_ones() {
        check("http://a?B=%7e&c=/?d", "http://a/?B=~&c=/?d");
        check("http://a#F", "http://a/#F");
        check("http://a/?", "http://a/?");
        check("http://a/#", "http://a/#");
        check("http://a/?#", "http://a/?#");
        check("http://a/#b#c", "http://a/#b%23c");
    }

    #[test]
    fn what_may_not_be_in_a_uri_is_escaped() {
        check("http://a/b c", "http://a/b%20c");
        check("http://a/é?ü#ß", "http://a/%C3%A9?%C3%BC#%C3%9F");
        check("http://a/\"<>[\\]^`{|}", "http://a/%22%3C%3E%5B%5C%5D%5E%60%7B%7C%7D");
        check("http://a/!$&'()*+,;=:@-._~", "http://a/!$&'()*+,;=:@-._~");
    }

    #[test]
    fn a_percent_sign_that_escapes_nothing_is_escaped() {
        check("http://a/100%", "http://a/100%25");
        check("http://a/100%?b=%zz", "http://a/100%25?b=%25zz");
        check("http://a/%%41", "http://a/%25A");
        check("http://a/%4%31", "http://a/%2541");
    }

    #[test]
    fn white_space_around_a_url_is_not_part_of_it() {
        check(" \t\nhttp://a/b \r\n", "http://a/b");
    }

    #[test]
    fn urls_without_a_host_are_urls() {
        check("MAILTO:John.Doe@Example.com", "mailto:John.Doe@Example.com");
        check("urn:ISBN:0451450523", "urn:ISBN:0451450523");
        check("x:", "x:");
    }

    #[test]
    fn an_escaped_query_is_a_query_only_when_decoded() {
        let (plain, escaped) = ("HTTP://a.com/?id=1", "http://A.com/%3Fid%3D1");
        check(plain, "http://a.com/?id=1");
        check(escaped, "http://a.com/%3Fid%3D1");
        check_decoded(plain, "http://a.com/?id=1");
        check_decoded(escaped, "http://a.com/?id=1");
    }

    #[test]
    fn decoding_goes_on_until_nothing_printable_is_left() {
        check_decoded("http%3A%2F%2FA%2Fb", "http://a/b");
        check_decoded("http://a/%252525253Fb", "http://a/?b");
        check_decoded("http://a/%4%31", "http://a/A");
        check_decoded("http://a/b/%252e%252e/c", "http://a/c");
        check_decoded("http://a/?q=x%26y", "http://a/?q=x&y");
        check_decoded("http://a/100%25", "http://a/100%25");
        // Neither a space nor a control character nor half a letter is printable.
        check_decoded("http://a/%2520%0a%c3", "http://a/%20%0A%C3");
        check_decoded("http://a/%7B%5b%22", "http://a/%7B%5B%22");
        let deep = format!("http://a/%{}41", "25".repeat(4_000));
        check_decoded(&deep, "http://a/A");
    }

    #[test]
    fn normal_forms_are_their_own_normal_form() {
        for text in [
            "HTTP://u:p@@Ex%41mple.com:080/a/./b/../%7e%2f%zz?%C3%a9#x#y",
            "http://a/%",
            "http://a/%25%2541",
            "http://a/%4%31",
            "http://a/% 41",
            "http://a/%2é",
            "http://a%[b/",
            "http://[a[%b]:80",
            "x:",
            "x:..",
            "x:..//a",
            "x:.///a",
            "x:a/../..//b/.",
            "x:/..//%2e/",
            "x://",
            "x://?#",
            "data:text/plain,a b%0A",
        ] {
            let normal = url(text).unwrap();
            check(&normal, &normal);
            let decoded = url_decoded(text).unwrap();
            check_decoded(&decoded, &decoded);
        }
    }

    #[test]
    fn what_is_not_a_url_is_refused() {
        for text in ["", " ", "a", "a.com/b", "/a:b", "//a.com/", "?a:b", "#a:b", ":a"] {
            check_refused(text, UrlError::NoScheme);
        }
        for text in ["1http://a", "ht tp://a", "ht%74p://a", "é:a", "-a:b", "a_b:c"] {
            check_refused(text, UrlError::Scheme);
        }
        for text in ["http://[::1", "http://[::1]a", "http://[::1]80/"] {
            check_refused(text, UrlError::Brackets);
        }
        for text in ["http://a:b/", "http://a:8 0/", "http://::1/", "http://a:80:80/", "x://a:-1"] {
            check_refused(text, UrlError::Port);
        }
        for text in ["http://\n", "http://\0/", "http://\u{7f}", "http://\u{85}/"] {
            check_refused(&format!("{text}a"), UrlError::ControlCharacter { at: 7 });
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(url(text).as_deref(), Ok(expected), "{text}");
    }

    #[track_caller]
    fn check_decoded(text: &str, expected: &str) {
        assert_eq!(url_decoded(text).as_deref(), Ok(expected), "{text}");
    }

    #[track_caller]
    fn check_refused(text: &str, expected: UrlError) {
        assert_eq!(url(text), Err(expected), "{text:?}");
    }
}
