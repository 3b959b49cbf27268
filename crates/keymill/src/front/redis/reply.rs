//! Answers as clients read them, in version 2 or 3 of the protocol.
//!
//! Every answer of `session` and of its commands is written here, straight into the buffer that is sent.

/// Which version of the protocol a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Resp2,
    Resp3,
}

/// Writes answers.
#[derive(Debug)]
pub(super) struct Reply<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
}

impl Version {
    /// Its number.
    pub(super) fn number(self) -> u64 {
        match self {
            Version::Resp2 => 2,
            Version::Resp3 => 3,
        }
    }
}

impl<'a> Reply<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, version: Version) -> Reply<'a> {
        Reply { out, version }
    }

    /// Goes on in another version.
    pub(super) fn switch_to(&mut self, version: Version) {
        self.version = version;
    }

    /// How much is written.
    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// Takes back what was written beyond a length.
    pub(super) fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
    }

    /// A word, such as OK.
    pub(super) fn word(&mut self, word: &str) {
        self.line(b'+', word.as_bytes());
    }

    pub(super) fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// An error: a word that programs know, and a sentence.
    pub(super) fn error(&mut self, code: &str, text: &str) {
        self.out.push(b'-');
        self.out.extend_from_slice(code.as_bytes());
        self.out.push(b' ');
        // An error is one line, whatever it quotes.
        self.out.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    pub(super) fn integer(&mut self, number: u64) {
        self.length(b':', number);
    }

    /// A number that is there as text already.
    pub(super) fn digits(&mut self, digits: &[u8]) {
        self.line(b':', digits);
    }

    /// A string.
    #[inline]
    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Nothing.
    pub(super) fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The head of a list.
    pub(super) fn array(&mut self, count: usize) {
        self.length(b'*', count as u64);
    }

    /// The head of a list in no order.
    pub(super) fn set(&mut self, count: usize) {
        self.length(if self.version == Version::Resp3 { b'~' } else { b'*' }, count as u64);
    }

    /// The head of a list of names with values.
    pub(super) fn map(&mut self, count: usize) {
        match self.version {
            Version::Resp2 => self.array(2 * count),
            Version::Resp3 => self.length(b'%', count as u64),
        }
    }

    fn line(&mut self, kind: u8, bytes: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn length(&mut self, kind: u8, mut number: u64) {
        // Without the machinery of `write!`: every key has one.
        let mut text = [b'0'; 20];
        let mut at = text.len();
        loop {
            at -= 1;
            text[at] = b'0' + u8::try_from(number % 10).expect("a digit");
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.line(kind, &text[at..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_to_their_last_digit() {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, Version::Resp2);
        for number in [0, 9, 10, 99, 100, 4_096, u64::MAX] {
            reply.integer(number);
        }
        reply.digits(b"123");
        reply.bulk(b"key");
        reply.bulk(b"");
        let expected = ":0\r\n:9\r\n:10\r\n:99\r\n:100\r\n:4096\r\n:18446744073709551615\r\n:123\r\n\
                        $3\r\nkey\r\n$0\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn each_version_has_its_own_nothing_set_and_map() {
        for (version, expected) in
            [(Version::Resp2, "$-1\r\n*2\r\n*4\r\n"), (Version::Resp3, "_\r\n~2\r\n%2\r\n")]
        {
            let mut out = Vec::new();
            let mut reply = Reply::new(&mut out, version);
            reply.null();
            reply.set(2);
            reply.map(2);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        let mut out = Vec::new();
        Reply::new(&mut out, Version::Resp3).error("ERR", "a\r\n+OK\r\nb\0");
        assert_eq!(out, b"-ERR a  +OK  b \r\n");
    }
}
