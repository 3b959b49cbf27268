//! Explaining a key: whether it can be of a space, which lease it came from, who held that.

use jiff::Timestamp;
use keymill_core::Located;
use serde::{Deserialize, Serialize};

use super::input::check_key;
use super::source::Source;
use super::{IdFields, Service, ServiceError, Space};
use crate::store::{Found, LeaseRecord, NamePurpose, NameRecord, Purpose, UsedKey};

/// What is known of a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The key as it would be handed out, where it can be of the space at all.
    pub key: Option<String>,
    /// What the key is to the keyspace.
    pub state: State,
    /// Why, in a sentence.
    pub reason: String,
    /// The n-th key of the space.
    pub ordinal: Option<u64>,
    /// What the shape writes, before it is shuffled; counted within the key's generation.
    pub number: Option<u128>,
    /// When it was made, where it tells.
    pub time: Option<Timestamp>,
    /// What else a snowflake ID tells.
    pub id: Option<IdFields>,
    /// The lease it came from.
    pub lease: Option<LeaseRecord>,
    /// The record of its use, where single keys are recorded.
    pub used: Option<UsedKey>,
}

/// What a key is to its space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It cannot be a key of this space.
    Invalid,
    /// It can be, and was not handed out.
    Unissued,
    /// It was granted to an instance, which may have handed it out.
    Leased,
    /// It was handed out.
    Issued,
    /// It is never issued: the blocklist matches it, or it was an alias.
    Skipped,
    /// It is an alias.
    Alias,
    /// It was in use before this space was.
    Imported,
    /// It is available in the pool.
    Available,
    /// It is in the pool, reserved for an instance that may hand it out.
    Reserved,
    /// It has expired or was retired, and is never handed out again.
    Retired,
    /// It can be a key of this keyspace, but nothing is recorded about it.
    Unknown,
}

impl Explanation {
    /// Nothing but a state.
    pub(super) fn new(state: State, reason: String) -> Explanation {
        Explanation {
            key: None,
            state,
            reason,
            ordinal: None,
            number: None,
            time: None,
            id: None,
            lease: None,
            used: None,
        }
    }

    /// It cannot be of the space.
    pub(super) fn invalid(reason: String) -> Explanation {
        Explanation::new(State::Invalid, reason)
    }
}

impl Service {
    /// What is known of a key.
    pub async fn explain(&self, name: &str, key: &str) -> Result<Explanation, ServiceError> {
        let space = self.space(name).await?;
        if let Err(problem) = check_key(key) {
            return Ok(Explanation::invalid(problem));
        }
        let record = self.store().spaces.space(name).await?;
        // The key may be of a generation that this instance has not met yet.
        space.codec.follow(&record.definition)?;
        if let Some(known) = self.name_of(&space, key).await? {
            let found = match known.purpose {
                NamePurpose::Pool => self.found(&space, &known.key).await?,
                _ => None,
            };
            return Ok(of_name(&space, known, found));
        }
        if let Source::Uuids(uuids) = space.source {
            return Ok(uuids.explain(key));
        }
        if let Some(timeline) = space.timeline() {
            return self.explain_id(&space, timeline, &record, key).await;
        }
        let generations = space.generations_now();
        let ordinal = match generations.ordinal(key.as_bytes()) {
            Ok(Located::Ordinal(ordinal)) => ordinal,
            Ok(Located::Elsewhere { number }) => {
                let definition = &record.definition;
                return Ok(Explanation::invalid(format!(
                    "its number, {number}, belongs to another store: this keyspace has the numbers \
                     that leave a remainder of {} when divided by {}",
                    definition.offset, definition.step
                )));
            }
            Ok(Located::Beyond) => {
                return Ok(Explanation::invalid(
                    "its number is beyond the capacity of the keyspace".to_owned(),
                ));
            }
            Err(error) => return Ok(Explanation::invalid(error.to_string())),
        };
        let canonical = generations.key(ordinal);
        let mut used = None;
        let (state, reason, lease) = if ordinal >= record.mark.next {
            (State::Unissued, "it has not been leased to any instance yet".to_owned(), None)
        } else {
            let returned = record.returned.contains(ordinal);
            let lease = self.store().leases.lease_of(name, ordinal).await?.filter(|_| !returned);
            let found = self.found(&space, canonical.as_str()).await?;
            let is_row = found.is_some();
            let (state, reason) = match found {
                Some(found) => {
                    let (state, reason) = of_row(&found);
                    used = used_in(Some(found));
                    (state, reason)
                }
                None => judge(lease.as_ref(), returned),
            };
            if !is_row && space.blocks(&canonical) {
                let reason = "the blocklist matches it, so it is never issued".to_owned();
                (State::Skipped, reason, lease)
            } else {
                (state, reason, lease)
            }
        };
        Ok(Explanation {
            key: Some(canonical.as_str().to_owned()),
            ordinal: Some(ordinal),
            number: Some(generations.number(ordinal)),
            lease,
            used,
            ..Explanation::new(state, reason)
        })
    }
}

fn judge(lease: Option<&LeaseRecord>, returned: bool) -> (State, String) {
    if returned {
        let reason = "it was returned unused and may be issued later";
        return (State::Unissued, reason.to_owned());
    }
    let Some(lease) = lease else {
        let reason = "no lease of it is on record: it lies below where this keyspace started in this \
                      store (`--start`), or was returned unused and discarded by `space advance`";
        return (State::Unknown, reason.to_owned());
    };
    let holder = format!("{} (pid {} on {})", lease.holder.id, lease.holder.pid, lease.holder.host);
    match (lease.purpose, lease.closed_at) {
        (Purpose::Advance, _) => (
            State::Leased,
            "`space advance` skipped it after the store was rolled back; it may be in use"
                .to_owned(),
        ),
        (Purpose::Fill, _) => {
            (State::Skipped, "it was skipped when the pool was filled".to_owned())
        }
        (Purpose::Lease | Purpose::Window, Some(_)) => {
            (State::Issued, format!("{holder} handed it out"))
        }
        (Purpose::Lease | Purpose::Window, None) => {
            (State::Leased, format!("it is in a lease of {holder}, which may have handed it out"))
        }
    }
}

fn of_name(space: &Space, known: NameRecord, found: Option<Found>) -> Explanation {
    let since = known.created_at;
    let owner = if known.owner.is_empty() { String::new() } else { format!(" of {}", known.owner) };
    let (state, reason) = match (known.removed_at, known.purpose) {
        (Some(at), _) => (State::Skipped, format!("it was an alias{owner} until {at}")),
        (None, NamePurpose::Alias) => {
            (State::Alias, format!("it has been an alias{owner} since {since}"))
        }
        (None, NamePurpose::Used) => {
            (State::Imported, format!("it was imported at {since} as already in use"))
        }
        (None, NamePurpose::Digest) => {
            (State::Issued, format!("it has been the key of an input since {since}"))
        }
        (None, NamePurpose::Pool) => match &found {
            Some(found) => of_row(found),
            None => (
                State::Skipped,
                format!("it was imported into the pool at {since}, but is no longer in it"),
            ),
        },
    };
    Explanation {
        key: Some(known.key),
        ordinal: known.ordinal,
        number: known.ordinal.map(|ordinal| space.generations().number(ordinal)),
        used: used_in(found),
        ..Explanation::new(state, reason)
    }
}

/// What the row of a key tells.
fn of_row(found: &Found) -> (State, String) {
    match found {
        Found::Available => (State::Available, "it is available in the pool".to_owned()),
        Found::Reserved { by, at } => {
            (State::Reserved, format!("it has been reserved for {by} since {at}"))
        }
        Found::Used(used) => match used.ended_at(Timestamp::now()) {
            Some(at) => (State::Retired, format!("it ended at {at}")),
            None => {
                let to = match used.caller.as_str() {
                    "" => String::new(),
                    caller => format!(" to {caller}"),
                };
                let (by, at) = (&used.instance, used.used_at);
                (State::Issued, format!("{by} handed it out{to} at {at}"))
            }
        },
    }
}

pub(super) fn used_in(found: Option<Found>) -> Option<UsedKey> {
    match found? {
        Found::Used(used) => Some(used),
        Found::Available | Found::Reserved { .. } => None,
    }
}
