//! Answers of the Redis protocol, read back: whether they are what the protocol says, in either version.
//!
//! It is written from the specification, and knows nothing of how the server writes them.

/// How deep an answer may be nested. `COMMAND` has three.
const DEPTH_MAX: usize = 6;

/// What is at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// An error: its text.
    Error(&'a [u8]),
    /// Anything else.
    Value,
}

/// Reads the answer at the beginning of some bytes, and its length; `None` where it is not complete.
///
/// # Panics
///
/// If the bytes are no answer.
pub fn read(bytes: &[u8]) -> Option<(Answer<'_>, usize)> {
    let end = skip(bytes, 0, 0)?;
    let answer = match bytes[0] {
        b'-' => Answer::Error(&bytes[1..end - 2]),
        _ => Answer::Value,
    };
    Some((answer, end))
}

/// Where the value that begins at a place ends.
fn skip(bytes: &[u8], start: usize, depth: usize) -> Option<usize> {
    assert!(depth < DEPTH_MAX, "nested too deep: {}", bytes.escape_ascii());
    let kind = *bytes.get(start)?;
    let (line, behind) = line(bytes, start + 1)?;
    let elements = match kind {
        b'+' | b'-' => {
            assert!(!line.contains(&b'\r'), "a CR within: {}", line.escape_ascii());
            return Some(behind);
        }
        b':' => {
            number(line);
            return Some(behind);
        }
        b'_' => {
            assert!(line.is_empty(), "a null with {}", line.escape_ascii());
            return Some(behind);
        }
        b'#' => {
            assert!(matches!(line, b"t" | b"f"), "no truth value: {}", line.escape_ascii());
            return Some(behind);
        }
        // In version 2, a null is a string or an array of this length.
        b'$' | b'*' if line == b"-1" => return Some(behind),
        b'$' => {
            let end = behind + length(line);
            let after = bytes.get(end..end + 2)?;
            assert_eq!(after, b"\r\n", "a string does not end where it should");
            return Some(end + 2);
        }
        b'*' | b'~' => length(line),
        b'%' => 2 * length(line),
        other => panic!("no answer begins with {:?}", char::from(other)),
    };
    (0..elements).try_fold(behind, |at, _| skip(bytes, at, depth + 1))
}

/// The rest of a line, and where the next one begins.
fn line(bytes: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let len = bytes.get(start..)?.iter().position(|byte| *byte == b'\n')?;
    let line = &bytes[start..start + len];
    let line = line.strip_suffix(b"\r").expect("a line ends with CR LF");
    Some((line, start + len + 1))
}

fn length(line: &[u8]) -> usize {
    usize::try_from(number(line)).expect("a length is not negative")
}

fn number(line: &[u8]) -> i64 {
    let text = std::str::from_utf8(line).ok();
    text.and_then(|text| text.parse().ok()).expect("a number is written in digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_to_their_end_and_no_further() {
        for (bytes, len) in [
            (&b"+OK\r\n+"[..], 5),
            (b":12\r\n", 5),
            (b"$-1\r\n", 5),
            (b"$2\r\n\r\n\r\n", 8),
            (b"*2\r\n$1\r\na\r\n%1\r\n+a\r\n_\r\n-", 21),
        ] {
            assert_eq!(read(bytes), Some((Answer::Value, len)), "{}", bytes.escape_ascii());
            assert_eq!(read(&bytes[..len - 1]), None);
        }
        assert_eq!(read(b"-ERR no\r\n"), Some((Answer::Error(b"ERR no"), 9)));
    }
}
