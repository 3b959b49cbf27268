//! Rules: which ordinals of a space become keys, and which keys.
//!
//! Generations say how an ordinal is written; skips and blocked keys are left out. `operations` writes
//! all keys of ordinals by them, whether they are taken, put on record or written into a pool. Nothing
//! here draws or asks a store.

use std::ops::Range;

use arc_swap::ArcSwap;
use keymill_core::{Blocklist, Generations, KeyText};

use super::codec::SpaceCodec;
use super::skips::without;

/// What decides which keys ordinals become.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    /// How they are written.
    pub(crate) generations: &'a Generations,
    /// Ordinals that names occupy, in order.
    pub(crate) skips: &'a [u64],
    /// Keys not to hand out.
    pub(crate) blocklist: &'a Blocklist,
}

impl Rules<'_> {
    /// Gives the keys of these ordinals to `each`, without skipped and blocked ones.
    #[inline]
    pub(crate) fn keys(self, ordinals: Range<u64>, mut each: impl FnMut(u64, &[u8])) {
        let shape = self.generations.shape();
        without(self.skips, ordinals, |run| {
            self.generations.keys(run, |ordinal, key| {
                if !self.blocklist.blocks(shape.after_prefix(key)) {
                    each(ordinal, key);
                }
            });
        });
    }

    /// The key of one ordinal, unless it is skipped or blocked.
    #[inline]
    pub(crate) fn key(self, ordinal: u64) -> Option<KeyText> {
        let key = self.generations.key(ordinal);
        let skipped = !self.skips.is_empty() && self.skips.binary_search(&ordinal).is_ok();
        (!skipped && !self.blocks(&key)).then_some(key)
    }

    /// Whether a key is one that must not be handed out.
    #[inline]
    pub(crate) fn blocks(self, key: &[u8]) -> bool {
        self.blocklist.blocks(self.generations.shape().after_prefix(key))
    }
}

impl SpaceCodec {
    /// The rules as of now. Asked for after ordinals are drawn, they know the generation and the skips
    /// of these.
    #[inline]
    pub(crate) fn with_rules<T>(
        &self,
        blocklist: &ArcSwap<Blocklist>,
        then: impl FnOnce(Rules<'_>) -> T,
    ) -> T {
        let (generations, skips, blocklist) =
            (self.generations(), self.skips().now(), blocklist.load());
        then(Rules { generations: &generations, skips: &skips, blocklist: &blocklist })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::secret::Master;
    use crate::space::{Definition, Kind};

    #[test]
    fn skipped_and_blocked_ordinals_make_no_key_alone_or_among_others() {
        let definition = Definition {
            kind: Kind::Sequential,
            alphabet: "decimal".to_owned(),
            length: 3,
            ..Definition::default()
        };
        let master = Master::made_up(Master::random_text().to_string());
        let codec = SpaceCodec::of("tickets", &definition, &master).unwrap();
        codec.skips().add(&[3, 5]);
        let blocklist = ArcSwap::from_pointee(Blocklist::new(["004", "006"]).unwrap());
        let mut many = Vec::new();
        codec.with_rules(&blocklist, |rules| {
            rules.keys(2..9, |ordinal, key| many.push((ordinal, key.to_vec())));
        });
        let alone: Vec<(u64, Vec<u8>)> = (2..9)
            .filter_map(|ordinal| {
                let key = codec.with_rules(&blocklist, |rules| rules.key(ordinal))?;
                Some((ordinal, key.to_vec()))
            })
            .collect();
        let expected = [2, 7, 8].map(|ordinal| (ordinal, format!("{ordinal:03}").into_bytes()));
        assert_eq!(many, expected);
        assert_eq!(alone, expected);
    }
}
