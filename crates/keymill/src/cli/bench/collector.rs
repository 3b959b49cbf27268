//! Keys of one worker on their way to `uniqueness`: checked for what keys look like, and sorted by length into chunks.
//!
//! Every link hands keys over as lines, as HTTP has them.

use super::uniqueness::{Chunk, KEY_LEN_MAX};

/// How many bytes a chunk has before it is sent.
const CHUNK: usize = 1 << 16;

/// Keys that were received and not sent yet.
#[derive(Debug, Default)]
pub(super) struct Collector {
    /// The chunk of each length of keys.
    open: Vec<Vec<u8>>,
    /// Chunks that are large enough to be sent.
    full: Vec<Chunk>,
    has_begun: bool,
}

/// Keys of an answer, known to look like keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines<'a> {
    text: &'a [u8],
    pub(super) count: u64,
    /// The length of each of them, if it is the same.
    key_len: Option<usize>,
}

impl<'a> Lines<'a> {
    /// Reads an answer: keys, one per line, at least one and at most as many as were asked for.
    pub(super) fn read(body: &'a [u8], asked: u32) -> Result<Lines<'a>, String> {
        let text = body.strip_suffix(b"\n").unwrap_or(body);
        // Without an early end, which would keep it from looking at many bytes at a time.
        if !text.iter().fold(true, |is_fine, byte| is_fine & may_be_in_answer(*byte)) {
            let odd = text.iter().find(|byte| !may_be_in_answer(**byte)).unwrap_or(&0);
            let odd = odd.escape_ascii();
            return Err(format!("the answer contains `{odd}`, which no key does"));
        }
        let count = text.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        if text.is_empty() || count > u64::from(asked) {
            let found = if text.is_empty() { 0 } else { count };
            return Err(format!("the server was asked for {asked} keys and sent {found}"));
        }
        let key_len = even_len(text, count);
        let fits = |len: usize| (1..=KEY_LEN_MAX).contains(&len);
        let odd = match key_len {
            Some(len) => Some(len).filter(|len| !fits(*len)),
            None => split(text).map(<[u8]>::len).find(|len| !fits(*len)),
        };
        match odd {
            Some(len) => Err(format!("the server sent a key of {len} characters")),
            None => Ok(Lines { text, count, key_len }),
        }
    }
}

fn split(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

/// The length that all lines have, if it is the same: then line ends are exactly where they must be.
fn even_len(text: &[u8], count: u64) -> Option<usize> {
    let first = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    let is_even = (text.len() + 1) as u64 == count * (first + 1) as u64
        && text.chunks(first + 1).all(|line| line.get(first).is_none_or(|end| *end == b'\n'));
    is_even.then_some(first)
}

impl Collector {
    pub(super) fn add(&mut self, lines: Lines<'_>) {
        match lines.key_len {
            Some(key_len) => self.add_even(lines.text, key_len),
            None => split(lines.text).for_each(|key| self.add_even(key, key.len())),
        }
        if !self.has_begun {
            // At once, because the first key tells how much room all of them will need.
            self.has_begun = true;
            self.full = self.drain();
        }
    }

    /// Adds keys of one length.
    fn add_even(&mut self, text: &[u8], key_len: usize) {
        if self.open.len() <= key_len {
            self.open.resize_with(key_len + 1, Vec::new);
        }
        let chunk = &mut self.open[key_len];
        for line in text.chunks(key_len + 1) {
            chunk.extend_from_slice(&line[..key_len]);
            if chunk.len() >= CHUNK {
                let bytes = std::mem::replace(chunk, Vec::with_capacity(CHUNK + KEY_LEN_MAX));
                self.full.push(Chunk { key_len, bytes });
            }
        }
    }

    /// A chunk to send, if there is one.
    pub(super) fn pop(&mut self) -> Option<Chunk> {
        self.full.pop()
    }

    /// All that is left.
    pub(super) fn drain(&mut self) -> Vec<Chunk> {
        let open = std::mem::take(&mut self.open).into_iter().enumerate();
        let open = open.filter(|(_, bytes)| !bytes.is_empty());
        let open = open.map(|(key_len, bytes)| Chunk { key_len, bytes });
        std::mem::take(&mut self.full).into_iter().chain(open).collect()
    }
}

/// What keys and the ends of their lines are made of. JSON and HTML are not.
fn may_be_in_answer(byte: u8) -> bool {
    byte == b'\n' || (byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}' | b'"' | b'<' | b'>'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_an_answer_come_out_as_they_were() {
        for answer in ["a", "a\n", "ab\ncd\n", "ab\ncd", "a\nbcd\nef\n", "ord_2HQX-9D.~\n"] {
            let lines = Lines::read(answer.as_bytes(), 3).unwrap();
            let mut collector = Collector::default();
            collector.add(lines);
            let mut found = Vec::new();
            for chunk in collector.drain() {
                let keys = chunk.bytes.chunks(chunk.key_len);
                found.extend(keys.map(|key| String::from_utf8(key.to_vec()).unwrap()));
            }
            let mut expected: Vec<&str> = answer.lines().collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(
                (found.len() as u64, found),
                (lines.count, expected.iter().map(ToString::to_string).collect())
            );
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let long = "x".repeat(KEY_LEN_MAX + 1);
        for (answer, says) in [
            ("", "sent 0"),
            ("\n", "sent 0"),
            ("a\nb\nc\nd\n", "sent 4"),
            ("a\n\nb\n", "a key of 0"),
            (long.as_str(), "a key of 129"),
            ("{\"space\":\"x\"}", "`{`"),
            ("a b", "contains ` `"),
            ("a\r\nb", "contains `\\r`"),
        ] {
            let refused = Lines::read(answer.as_bytes(), 3).unwrap_err();
            assert!(refused.contains(says), "{answer:?}: {refused}");
        }
    }

    #[test]
    fn many_keys_are_sent_in_chunks_and_none_is_lost() {
        let mut collector = Collector::default();
        let answer = "0123456\n".repeat(1_000);
        for _ in 0..100 {
            collector.add(Lines::read(answer.as_bytes(), 1_000).unwrap());
        }
        let popped: Vec<Chunk> = std::iter::from_fn(|| collector.pop()).collect();
        assert!(popped.len() >= 10, "{}", popped.len());
        let bytes: usize =
            popped.iter().chain(&collector.drain()).map(|chunk| chunk.bytes.len()).sum();
        assert_eq!(bytes, 7 * 100_000);
    }
}
