//! The cookie that holds a session: how it is named, found in a request, set and cleared.
//!
//! `session` sets and clears it, `admission` looks for it. What its value means is for `access`.
//!
//! Over TLS its name has the prefix `__Host-`: browsers accept it only with `Secure`, from this very host and for all
//! its paths, so that neither a neighbouring name nor a page over plain HTTP can plant one. Cookies are shared by all
//! ports of a host; what that means for requests is for `browser`.

use hyper::header::{self, HeaderMap, HeaderValue};

/// Its names, over TLS and over plain HTTP.
const SECURE_NAME: &str = "__Host-keymill-session";
const PLAIN_NAME: &str = "keymill-session";

/// How many cookies by this name are looked at. Browsers send one; more come from whoever wants to cause work.
const LOOKS_MAX: usize = 4;

/// The values of the cookie in a request. What is looked up in a request without cookies is one header.
pub(super) fn values(headers: &HeaderMap, is_secure: bool) -> impl Iterator<Item = &[u8]> {
    let name = name(is_secure).as_bytes();
    // Over HTTP/2, each cookie may have a header of its own.
    let pairs = headers
        .get_all(header::COOKIE)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii));
    pairs.filter_map(move |pair| pair.strip_prefix(name)?.strip_prefix(b"=")).take(LOOKS_MAX)
}

/// The header that sets it, for so many seconds.
pub(super) fn set(value: &str, seconds: i64, is_secure: bool) -> HeaderValue {
    let name = name(is_secure);
    let secure = if is_secure { "; Secure" } else { "" };
    let text =
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let mut header = HeaderValue::try_from(text).expect("a session is hexadecimal digits");
    header.set_sensitive(true);
    header
}

/// The header that removes it from the browser.
pub(super) fn clear(is_secure: bool) -> HeaderValue {
    set("", 0, is_secure)
}

fn name(is_secure: bool) -> &'static str {
    if is_secure { SECURE_NAME } else { PLAIN_NAME }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_among_others_by_its_whole_name() {
        for (lines, plain, secure) in [
            (&["keymill-session=a"][..], &["a"][..], &[][..]),
            (&["__Host-keymill-session=a"], &[], &["a"]),
            (&["x=1; keymill-session=a;y=2", "__Host-keymill-session=b"], &["a"], &["b"]),
            (&["keymill-session=a", "keymill-session=b; keymill-session=c"], &["a", "b", "c"], &[]),
            (&["xkeymill-session=a; keymill-sessions=b; keymill-session"], &[], &[]),
            (&["Keymill-Session=a", "keymill-session =a", ""], &[], &[]),
            (&["keymill-session="], &[""], &[]),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::COOKIE, HeaderValue::from_static(line));
            }
            let found = |is_secure| {
                let texts = values(&headers, is_secure).map(String::from_utf8_lossy);
                texts.map(std::borrow::Cow::into_owned).collect::<Vec<_>>()
            };
            assert_eq!((found(false), found(true)), (owned(plain), owned(secure)), "{lines:?}");
        }
    }

    #[test]
    fn only_a_few_are_looked_at() {
        let mut headers = HeaderMap::new();
        let many = "keymill-session=a; ".repeat(100);
        headers.append(header::COOKIE, HeaderValue::try_from(many).unwrap());
        assert_eq!(values(&headers, false).count(), 4);
    }

    #[test]
    fn no_script_and_no_other_site_gets_it() {
        let (secure, plain) = (set("ab", 43_200, true), set("ab", 43_200, false));
        let rest = "=ab; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict";
        assert_eq!(secure, format!("__Host-keymill-session{rest}; Secure"));
        assert_eq!(plain, format!("keymill-session{rest}"));
        assert!(clear(false).to_str().unwrap().starts_with("keymill-session=; Path=/; Max-Age=0;"));
        assert!(!format!("{secure:?}{plain:?}").contains("ab;"), "it is not shown in a log");
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }
}
