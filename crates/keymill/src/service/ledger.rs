//! The ledger: every key on record, with its time and its caller, before it is handed out.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use super::together::Together;
use super::{Service, ServiceError, Space};
use crate::floor::{Floors, floor_of, raise_to};
use crate::mill::Dry;
use crate::store::keys::{Claimed, Found, KeyPlace, KeyUse, LastUse, Uses};
use crate::store::{Store, StoreError};

/// The most keys of one commit.
const KEYS_MAX: usize = 10_000;

/// Notes keys of one space, many takes to a commit.
#[derive(Debug)]
pub(super) struct Ledger {
    together: Together<Vec<KeyUse>, Vec<bool>>,
}

impl Service {
    /// The ledger of a space whose store can keep one.
    pub(super) fn ledger(&self, space: &str, pooled: bool, ttl: TtlOf) -> Option<Ledger> {
        let inner = &self.inner;
        inner.store.keys().filter(|keys| keys.notes_keys())?;
        let writer = Arc::new(Writer {
            space: space.to_owned(),
            instance: inner.instance.id.clone(),
            store: inner.store.clone(),
            floors: inner.floors.clone(),
            pooled,
            ttl,
            last: Mutex::default(),
        });
        let commit = move |asked| {
            let writer = writer.clone();
            async move { writer.write(asked).await }
        };
        let together = Together::start(&inner.runtime, KEYS_MAX, Vec::len, commit);
        Some(Ledger { together })
    }
}

/// Keys that were drawn and are not on record yet.
#[derive(Default)]
struct Slip {
    uses: Vec<KeyUse>,
    drawn: Vec<Range<u64>>,
}

impl Slip {
    fn len(&self) -> u32 {
        u32::try_from(self.uses.len()).unwrap_or(u32::MAX)
    }
}

impl Space {
    /// Takes keys of a space where a key may have to be on record before it leaves. All are drawn
    /// before one is noted, so that a take which is refused has put none on record.
    pub(super) async fn take_on_record(
        &self,
        count: u32,
        caller: &str,
        mut each: impl FnMut(&[u8]) + Send,
    ) -> Result<u32, ServiceError> {
        let (mut given, mut noted) = (0, 0);
        while given < count {
            let (mut slip, mut last) = (Slip::default(), false);
            while given + slip.len() < count {
                let left = count - given - slip.len();
                match self.mill.draw(left.into()).await {
                    Ok(drawn) => given += self.gather(drawn, caller, &mut slip, &mut each),
                    Err(dry) => {
                        let ends = matches!(dry, Dry::Exhausted { .. } | Dry::Sealed);
                        last = noted > 0 || (ends && given + slip.len() > 0);
                        if last {
                            break;
                        }
                        return Err(self.refusal(dry));
                    }
                }
            }
            match self.note(slip, &mut each).await {
                Ok(count) => (given, noted) = (given + count, noted + count),
                // Those on record are the caller's: fewer keys are better than lost ones.
                Err(_) if noted > 0 => last = true,
                Err(error) => return Err(error),
            }
            // Of the last keys, others may have been given all.
            if last && given > 0 {
                break;
            }
        }
        Ok(given)
    }

    /// Hands out the keys of what was drawn, those that have to be on record after they are, and
    /// counts them.
    pub(super) async fn hand_out(
        &self,
        drawn: Range<u64>,
        caller: &str,
        mut each: impl FnMut(&[u8]) + Send,
    ) -> Result<u32, ServiceError> {
        let mut slip = Slip::default();
        let given = self.gather(drawn, caller, &mut slip, &mut each);
        Ok(given + self.note(slip, each).await?)
    }

    /// Turns what was drawn into keys: those that need not be noted are given to `each` and
    /// counted, the others put on the slip.
    fn gather(
        &self,
        drawn: Range<u64>,
        caller: &str,
        slip: &mut Slip,
        mut each: impl FnMut(&[u8]),
    ) -> u32 {
        let mut count = 0;
        slip.drawn.push(drawn.clone());
        let mut note = |id, key: &str| {
            slip.uses.push(KeyUse { id, key: key.to_owned(), caller: caller.to_owned() });
        };
        match &self.claims {
            Some(claims) => claims.keys(drawn, |Claimed { id, key }, reserved| {
                if reserved {
                    note(*id, key);
                } else {
                    each(key.as_bytes());
                    count += 1;
                }
            }),
            None => {
                (self.writer())(drawn, &mut |ordinal, key| note(ordinal.cast_signed(), key));
            }
        }
        count
    }

    /// Puts keys on record, hands out those that may go, and counts them.
    async fn note(
        &self,
        slip: Slip,
        mut each: impl FnMut(&[u8]) + Send,
    ) -> Result<u32, ServiceError> {
        if slip.uses.is_empty() {
            return Ok(0);
        }
        let ledger = self.ledger.as_ref().ok_or_else(|| StoreError::no_keys(&self.name))?;
        let (mut count, mut lost) = (0, false);
        for uses in slip.uses.chunks(KEYS_MAX) {
            let may_go = match ledger.together.ask(uses.to_vec()).await {
                Ok(may_go) => may_go,
                // The first ones are on record.
                Err(_) if count > 0 => break,
                Err(error) => return Err(error.into()),
            };
            for (used, _) in uses.iter().zip(&may_go).filter(|(_, may_go)| **may_go) {
                each(used.key.as_bytes());
                count += 1;
            }
            lost |= may_go.contains(&false);
        }
        if let Some(claims) = self.claims.as_ref().filter(|_| lost) {
            slip.drawn.iter().for_each(|drawn| claims.lose(drawn));
        }
        Ok(count)
    }
}

/// What goes wrong behind a commit leaves keys on record that nobody was given.
fn after_commit(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(problem) => StoreError::InDoubt(problem),
        error => error,
    }
}

/// How long used keys live, as the settings say at present.
type TtlOf = Box<dyn Fn() -> Option<std::time::Duration> + Send + Sync>;

/// What a commit needs.
struct Writer {
    space: String,
    instance: String,
    store: Arc<dyn Store>,
    floors: Arc<Floors>,
    pooled: bool,
    ttl: TtlOf,
    /// The last key that was noted.
    last: Mutex<Option<LastUse>>,
}

impl Writer {
    fn last(&self) -> MutexGuard<'_, Option<LastUse>> {
        self.last.lock().expect("nothing panics while it is held")
    }

    async fn write(&self, asked: Vec<Vec<KeyUse>>) -> Result<Vec<Vec<bool>>, StoreError> {
        let keys = self.store.keys().ok_or_else(|| StoreError::no_keys(&self.space))?;
        let sizes: Vec<usize> = asked.iter().map(Vec::len).collect();
        let last = self.last().clone();
        let uses = Uses {
            space: self.space.clone(),
            instance: self.instance.clone(),
            keys: asked.into_iter().flatten().collect(),
            pooled: self.pooled,
            ttl: (self.ttl)(),
            last,
            floor: floor_of(&self.floors, &self.space).await?,
        };
        let noted = keys.note(&uses).await?;
        raise_to(&self.floors, &self.space, noted.mark).await.map_err(after_commit)?;
        // This process may have been paused between the commit and the floor, while the store was
        // taken back and gave these keys to another.
        let first = uses.keys.iter().zip(&noted.may_go).find(|(_, may_go)| **may_go);
        if let Some((KeyUse { id, key, .. }, _)) = first {
            let at = KeyPlace { space: self.space.clone(), id: *id, key: key.clone() };
            match keys.find(&at).await.map_err(after_commit)? {
                Some(Found::Used(used)) if used.instance == self.instance => {
                    let key = Claimed { id: *id, key: key.clone() };
                    *self.last() = Some(LastUse { key, revision: noted.mark.revision });
                }
                _ => {
                    let lost = format!("a used key of `{}` is not on record any more", self.space);
                    return Err(StoreError::went_back(&self.space, noted.mark, lost));
                }
            }
        }
        let mut may_go = noted.may_go.into_iter();
        Ok(sizes.into_iter().map(|size| may_go.by_ref().take(size).collect()).collect())
    }
}
