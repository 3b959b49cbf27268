//! Bounds: the keys between two times, for kinds whose keys are in the order of time.

use jiff::Timestamp;

use super::source::Source;
use super::{Service, ServiceError};
use crate::space::{DefinitionError, Kind};
use crate::store::{LeasePage, Purpose};

/// How many leases are read at once.
const PAGE: u32 = 1_000;

/// The lowest and the highest key of a time: those made in it lie between, by the clock that they
/// tell. Of a sequential space they are those that were leased in it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Bounds {
    /// The lowest key.
    pub first: String,
    /// The highest key.
    pub last: String,
}

impl Service {
    /// The keys from one time until before another; `None` where there are none.
    pub async fn bounds(
        &self,
        name: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Option<Bounds>, ServiceError> {
        let space = self.space(name).await?;
        let kind = space.record().definition.kind;
        if let Some(timeline) = space.timeline() {
            let key = |id| space.generations().key(id).as_str().to_owned();
            let shape = space.record().definition.shape().map_err(DefinitionError::from)?;
            if shape.length() > 0 && !shape.is_sorted() {
                return Err(ServiceError::WrongKind(format!(
                    "keys of `{name}` do not sort in the order of their IDs, because its alphabet \
                     is not sorted"
                )));
            }
            let bounds = timeline.bounds(from, to);
            return Ok(bounds.map(|(low, high)| Bounds { first: key(low), last: key(high) }));
        }
        if let Source::Uuids(uuids) = space.source
            && uuids.are_by_time()
        {
            let bounds = uuids.bounds(from, to);
            return Ok(bounds.map(|(first, last)| Bounds { first, last }));
        }
        if kind != Kind::Sequential {
            return Err(ServiceError::WrongKind(format!(
                "keys of `{name}` are not ordered by time: its kind is {kind}"
            )));
        }
        let mut found: Option<(u64, u64)> = None;
        let mut page = LeasePage { space: Some(name.to_owned()), after: None, limit: PAGE };
        loop {
            let leases = self.leases(&page).await?;
            for lease in &leases {
                if lease.purpose == Purpose::Lease && (from..to).contains(&lease.granted_at) {
                    // A lease that was closed before its end has handed out no more than that.
                    let end = lease.closed_at_ordinal.unwrap_or(lease.ordinals.end);
                    if lease.ordinals.start < end {
                        let (low, high) = found.unwrap_or((u64::MAX, 0));
                        found = Some((low.min(lease.ordinals.start), high.max(end - 1)));
                    }
                }
            }
            let is_last = leases.len() < PAGE as usize;
            page.after = leases.last().map(|last| (last.space.clone(), last.lease));
            if is_last {
                break;
            }
        }
        if let Some((_, high)) = found {
            space.codec.follow(&self.store().spaces.space(name).await?.definition)?;
            debug_assert!(high < space.generations().capacity(), "granted within the capacity");
        }
        let key = |ordinal| space.generations().key(ordinal).as_str().to_owned();
        Ok(found.map(|(low, high)| Bounds { first: key(low), last: key(high) }))
    }
}
