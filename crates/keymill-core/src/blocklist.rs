//! The blocklist: words that no key may contain, found in one walk over the key.
//!
//! The engine asks it about every generated key, giving the text after the prefix; a blocked
//! ordinal is skipped. It ignores case and hyphens. It is not part of a space's definition, so
//! words may come and go.
//!
//! The words are compiled to the automaton of Aho and Corasick, fully expanded: one table lookup
//! for a byte, whatever the number of words.

use std::collections::VecDeque;
use std::fmt;

use thiserror::Error;

use crate::alphabet::is_url_safe;

/// A set of words, compiled.
#[derive(Clone)]
pub struct Blocklist {
    /// The class of every byte: 0 for a byte of no word, the last for the hyphen.
    classes: Box<[u8; 256]>,
    /// The row of the next state, by row of the present state + class.
    next: Vec<u32>,
    start: u32,
    words: usize,
}

/// Why words do not make a blocklist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BlocklistError {
    /// One letter would block nearly every key.
    #[error("`{word}` is too short to block: a word has at least {WORD_MIN} characters")]
    TooShort {
        /// The word, as it was given.
        word: String,
    },
    /// A key can never contain it.
    #[error("`{word}` cannot be in a key: `{found}` is not A-Z, a-z, 0-9, `_`, `.` or `~`")]
    Character {
        /// The word, as it was given.
        word: String,
        /// The offending character.
        found: char,
    },
    /// The table would take too much memory.
    #[error("the blocklist is too long: its words may have {LETTERS_MAX} characters in total")]
    TooLong,
}

impl Blocklist {
    /// A blocklist that blocks nothing.
    pub fn none() -> Blocklist {
        Blocklist { classes: Box::new([0; 256]), next: Vec::new(), start: 0, words: 0 }
    }

    /// The words that keymill brings along.
    pub fn builtin() -> Blocklist {
        Blocklist::new(builtin_words()).expect("the built-in words are sound")
    }

    /// A blocklist of these words.
    pub fn new<W: AsRef<str>>(
        words: impl IntoIterator<Item = W>,
    ) -> Result<Blocklist, BlocklistError> {
        let mut folded = Vec::new();
        let mut letters = 0;
        for word in words {
            letters += word.as_ref().len();
            if letters > LETTERS_MAX {
                return Err(BlocklistError::TooLong);
            }
            folded.push(fold(word.as_ref())?);
        }
        let words = folded;
        Ok(if words.is_empty() { Blocklist::none() } else { compile(&words) })
    }

    /// A blocklist of these words and the built-in ones.
    pub fn with_builtin<W: AsRef<str>>(
        words: impl IntoIterator<Item = W>,
    ) -> Result<Blocklist, BlocklistError> {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        Blocklist::new(builtin_words().map(str::to_owned).chain(words))
    }

    /// Whether it blocks nothing.
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Whether a key, given without its prefix, contains a word.
    #[inline]
    pub fn blocks(&self, key: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut state = self.start;
        for &byte in key {
            let class = self.classes[usize::from(byte)];
            state = self.next[state as usize + usize::from(class)];
        }
        state == FOUND
    }
}

impl fmt::Debug for Blocklist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocklist").field("words", &self.words).finish_non_exhaustive()
    }
}

const WORD_MIN: usize = 2;
/// Bounds the table to some 16 MB: a letter has a row of at most 41 entries of 4 bytes.
const LETTERS_MAX: usize = 100_000;

/// The row of the state that a walk never leaves again: the key contains a word.
const FOUND: u32 = 0;
/// The class of bytes that are in no word.
const OTHER: usize = 0;

fn builtin_words() -> impl Iterator<Item = &'static str> {
    let lines = include_str!("words.txt").lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A word as it is compared: in lower case, without hyphens.
fn fold(word: &str) -> Result<Vec<u8>, BlocklistError> {
    if let Some(found) = word.chars().find(|&c| !is_url_safe(c)) {
        return Err(BlocklistError::Character { word: word.to_owned(), found });
    }
    let letters = word.bytes().filter(|&byte| byte != b'-').map(|byte| byte.to_ascii_lowercase());
    let letters: Vec<u8> = letters.collect();
    if letters.len() < WORD_MIN {
        return Err(BlocklistError::TooShort { word: word.to_owned() });
    }
    Ok(letters)
}

fn compile(words: &[Vec<u8>]) -> Blocklist {
    let (classes, class_count) = classes_of(words);
    let class = |byte: u8| usize::from(classes[usize::from(byte)]);

    // A trie of the words. Node 0 stands for every end of a word, node 1 is the root.
    const MISSING: usize = usize::MAX;
    let (end, root) = (0, 1);
    let mut trie = vec![vec![MISSING; class_count]; 2];
    for word in words {
        let mut node = root;
        for (i, &letter) in word.iter().enumerate() {
            let class = class(letter);
            if i + 1 == word.len() {
                // Longer words through here need not be told from this one: they are cut off.
                trie[node][class] = end;
            } else if trie[node][class] == MISSING {
                trie.push(vec![MISSING; class_count]);
                trie[node][class] = trie.len() - 1;
            }
            node = trie[node][class];
            if node == end {
                break;
            }
        }
    }

    // Nearest nodes first, so that the node to fall back to is always complete: where a word
    // cannot go on, the longest end of it that begins a word does.
    trie[end].fill(end);
    let mut fallback = vec![root; trie.len()];
    let mut queue = VecDeque::from([root]);
    while let Some(node) = queue.pop_front() {
        let after = match node == root {
            true => vec![root; class_count],
            false => trie[fallback[node]].clone(),
        };
        for (step, after) in trie[node].iter_mut().zip(after) {
            match *step {
                MISSING => *step = after,
                child if child == end => {}
                // A word that ends here is inside the one that goes on.
                _ if after == end => *step = end,
                child => {
                    fallback[child] = after;
                    queue.push_back(child);
                }
            }
        }
    }
    // A hyphen changes nothing.
    for (node, row) in trie.iter_mut().enumerate() {
        row[class(b'-')] = node;
    }

    let row = |node: usize| u32::try_from(node * class_count).expect("LETTERS_MAX bounds it");
    // Still missing are only the steps of nodes that were cut off, which no walk comes to.
    let steps = trie.iter().flatten().map(|&node| if node == MISSING { root } else { node });
    Blocklist { next: steps.map(row).collect(), start: row(root), words: words.len(), classes }
}

/// Numbers the bytes that occur in words, the hyphen last; both cases of a letter are one class.
fn classes_of(words: &[Vec<u8>]) -> (Box<[u8; 256]>, usize) {
    let mut classes = Box::new([0; 256]);
    let mut count = 1;
    for &letter in words.iter().flatten().chain(b"-") {
        if usize::from(classes[usize::from(letter)]) == OTHER {
            classes[usize::from(letter)] = count;
            classes[usize::from(letter.to_ascii_uppercase())] = count;
            count += 1;
        }
    }
    (classes, usize::from(count))
}
