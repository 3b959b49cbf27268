//! The clock of a member. etcd has none in its API, but a member also answers HTTP on the port of
//! its clients, and with every answer comes the time, to the second.
//!
//! Windows are granted by it, so that a host whose clock is far ahead cannot occupy a worker for as
//! long. A member that is spoken to over TLS is not asked, nor does every one answer HTTP there:
//! then the caller's clock is all there is.

use jiff::fmt::rfc2822::DateTimeParser;

use super::http;

/// How far beyond a date it may be.
const AHEAD_MAX_MS: i64 = 1_000;

/// The caller's clock, in milliseconds since 1970, within what that of a member allows.
pub(super) async fn now(member: Option<String>, now_ms: i64) -> i64 {
    let Some(member) = member else { return now_ms };
    let head = http::get(&member, "/version").await;
    let date = head.and_then(|head| date_in(&head));
    date.map_or(now_ms, |date| now_ms.clamp(date, date.saturating_add(AHEAD_MAX_MS)))
}

/// The date of an answer, in milliseconds since 1970.
fn date_in(head: &str) -> Option<i64> {
    let mut lines = head.split("\r\n").take_while(|line| !line.is_empty());
    lines.next().filter(|status| status.starts_with("HTTP/1."))?;
    let date = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then_some(value.trim())
    })?;
    DateTimeParser::new().parse_timestamp(date).ok().map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_an_answer_is_found_and_nothing_else() {
        for (head, expected) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                 Date: Mon, 16 Nov 2026 05:35:34 GMT\r\nContent-Length: 45\r\n\r\n{}",
                Some(1_794_807_334_000),
            ),
            ("HTTP/1.0 404 Not Answers\r\ndate:Thu, 01 Jan 1970 00:00:01 GMT", Some(1_000)),
            ("HTTP/1.1 200 OK\r\n\r\nDate: Mon, 16 Nov 2026 05:35:34 GMT\r\n", None),
            ("HTTP/1.1 200 OK\r\nDate: Mon, 16 Nov 20", None),
            ("HTTP/1.1 200 OK\r\nDate: soon\r\n\r\n", None),
            ("\u{0}\u{0}\u{6}\u{4}\r\nDate: Mon, 16 Nov 2026 05:35:34 GMT\r\n", None),
            ("", None),
        ] {
            assert_eq!(date_in(head), expected, "{head:?}");
        }
    }

    #[tokio::test]
    async fn a_member_that_cannot_be_asked_leaves_the_callers_clock() {
        assert_eq!(now(None, 42).await, 42);
        assert_eq!(now(Some("127.0.0.1:1".to_owned()), 42).await, 42);
    }
}
