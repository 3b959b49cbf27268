//! Snowflake IDs: what one tells, and which lie between two times.

use jiff::Timestamp;
use keymill_core::Located;

use super::source::Source;
use super::{Explanation, Service, ServiceError, Space, State};
use crate::space::Timeline;
use crate::store::SpaceRecord;

/// What an ID is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdFields {
    /// The instance's number then.
    pub worker: u32,
    /// Its number among those of one tick.
    pub sequence: u32,
}

impl Space {
    /// How a snowflake space counts.
    pub(super) fn timeline(&self) -> Option<Timeline> {
        match &self.source {
            Source::Ticks(ticks) => Some(ticks.worker().timeline()),
            _ => None,
        }
    }
}

impl Service {
    /// What is known of an ID: what it tells, and who held the worker then.
    pub(super) async fn explain_id(
        &self,
        space: &Space,
        timeline: Timeline,
        record: &SpaceRecord,
        key: &str,
    ) -> Result<Explanation, ServiceError> {
        let generations = space.generations_now();
        let id = match generations.ordinal(key.as_bytes()) {
            Ok(Located::Ordinal(id)) => id,
            Ok(_) => return Ok(Explanation::invalid("it has more bits than an ID".to_owned())),
            Err(error) => return Ok(Explanation::invalid(error.to_string())),
        };
        let Some(fields) = timeline.layout.fields(id) else {
            let bits = timeline.layout.bits();
            return Ok(Explanation::invalid(format!("it has more bits than the {bits} of an ID")));
        };
        let key = generations.key(id).as_str().to_owned();
        let ordinal = timeline.ordinals(fields.worker, fields.tick..fields.tick).start;
        let lease = self.store().leases.lease_of(&space.name, ordinal).await?;
        let used = super::explain::used_in(self.found(space, &key).await?);
        let (state, reason) = match (&lease, &used) {
            (_, Some(used)) => (State::Issued, format!("{} handed it out", used.instance)),
            (Some(lease), None) => {
                let holder = &lease.holder;
                (
                    State::Leased,
                    format!(
                        "worker {} was held at that time by {} (pid {} on {}), which may have made \
                         it",
                        fields.worker, holder.id, holder.pid, holder.host
                    ),
                )
            }
            (None, None) if fields.tick >= record.mark.next => {
                (State::Unissued, "no instance has reached that time yet".to_owned())
            }
            (None, None) if fields.tick < record.base => (
                State::Leased,
                "`space advance` skipped that time after the store was rolled back; it may be in \
                 use"
                .to_owned(),
            ),
            (None, None) => {
                (State::Unissued, format!("no instance held worker {} at that time", fields.worker))
            }
        };
        Ok(Explanation {
            key: Some(key),
            number: Some(id.into()),
            time: Some(timeline.time_of(fields.tick)),
            id: Some(IdFields { worker: fields.worker, sequence: fields.sequence }),
            lease,
            used,
            ..Explanation::new(state, reason)
        })
    }
}

impl Timeline {
    /// The lowest and the highest ID from one time until before another; `None` where there is none.
    pub(super) fn bounds(self, from: Timestamp, to: Timestamp) -> Option<(u64, u64)> {
        // Until the end of a tick that has begun.
        let end = self.tick_at(up_to_ms(to).saturating_add(i64::from(self.layout.unit_ms) - 1));
        self.layout.bounds(self.tick_at(from.as_millisecond())..end)
    }
}

/// A time in milliseconds since 1970, rounded up: what is made in a millisecond that has begun is
/// before its end.
pub(super) fn up_to_ms(time: Timestamp) -> i64 {
    let ms = time.as_millisecond();
    if time.subsec_nanosecond() % 1_000_000 > 0 { ms.saturating_add(1) } else { ms }
}
