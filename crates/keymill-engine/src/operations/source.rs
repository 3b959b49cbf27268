//! The source of a space: what its keys are made of, one of five.
//!
//! `registry` chooses it when it opens a space; operations match on it. It stands here and not in the room of
//! the sources, because digests ask the store for every key, and those never do.

use std::sync::Arc;

use super::digests::DigestMaker;
use super::{Service, ServiceError};
use crate::source::claimed_keys::ClaimedKeys;
use crate::source::leased::Mill;
use crate::source::numbers::Numbers;
use crate::source::queue::Queue;
use crate::source::ticks::Ticks;
use crate::source::uuids::Uuids;
use crate::space::Kind;
use crate::store::SpaceRecord;

/// What the keys of a space are made of.
#[derive(Debug)]
pub(super) enum Source {
    /// Ordinals of leases: shuffled and sequential keys.
    Leased(Arc<Mill>),
    /// Ticks of a window: snowflake IDs.
    Ticks(Arc<Ticks>),
    /// Rows of a pool that this instance has claimed.
    Claimed {
        /// Hands out their numbers instead of ordinals.
        mill: Arc<Mill>,
        /// Turns the numbers into keys.
        claimed: Arc<ClaimedKeys>,
    },
    /// UUIDs, which no store has to know.
    Uuids(Uuids),
    /// Digests of inputs, which are on record before they leave.
    Digests(DigestMaker),
}

impl Source {
    /// What takes draw from in runs, where there is such a thing.
    #[inline]
    pub(super) fn numbers(&self) -> Option<Numbers<'_>> {
        match self {
            Source::Leased(mill) | Source::Claimed { mill, .. } => Some(Numbers::Leased(mill)),
            Source::Ticks(ticks) => Some(Numbers::Ticks(ticks)),
            Source::Uuids(_) | Source::Digests(_) => None,
        }
    }

    /// Where callers wait for `supply`, if this is filled by one.
    pub(super) fn queue(&self) -> Option<&Queue> {
        self.numbers().map(Numbers::queue)
    }
}

impl Service {
    /// The source that a space of this record has.
    pub(super) fn source_of(&self, record: &SpaceRecord) -> Result<Source, ServiceError> {
        let (waiting_max, wait_max) = (self.inner.limits.waiting_max, self.inner.limits.wait_max);
        let mill = || Arc::new(Mill::new(waiting_max, wait_max));
        let definition = &record.definition;
        Ok(match definition.kind {
            Kind::Shuffled | Kind::Sequential => Source::Leased(mill()),
            Kind::Pooled => {
                let claimed = ClaimedKeys::new(self.inner.clock.clone());
                Source::Claimed { mill: mill(), claimed: Arc::new(claimed) }
            }
            Kind::Snowflake => {
                let timeline = definition.timeline()?.expect("a snowflake space counts time");
                let clock = self.inner.clock.clone();
                Source::Ticks(Arc::new(Ticks::new(timeline, clock, waiting_max, wait_max)))
            }
            Kind::Uuid => Source::Uuids(Uuids::of(definition)),
            Kind::Digest => Source::Digests(self.digests_of(record)?),
        })
    }
}
