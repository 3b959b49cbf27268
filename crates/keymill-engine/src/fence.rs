//! Making sure: what a change has left on record is looked at once more before anything of it leaves.
//!
//! This process may have been paused between a commit and the floor files, while the store was taken
//! back and moved on without knowing of the change; from the floor files on, whoever moves it on
//! knows. And the answer may have come from a server that is not the primary any more. So every
//! change ends here: the floor is raised, then the change is looked for in one state of the store that
//! has come at least as far.

pub(crate) mod floors;
pub(crate) mod group_commit;
pub(crate) mod readiness;

use std::sync::Arc;

use crate::space::codec::Keys;
use crate::store::{
    Confirm, Confirmed, Evidence, GiveBack, Grant, LeaseAsk, Lengths, Mark, Store, StoreError,
};
use floors::{Floors, raise_to};
use readiness::reach;

/// Raises the floor to where a change has led, and looks for what the change has left on record.
pub(crate) async fn make_sure(
    store: &Store,
    floors: &Arc<Floors>,
    change: &Confirm,
) -> Result<Confirmed, StoreError> {
    raise_to(floors, &change.space, change.reached).await?;
    let confirmed = store.snapshots.confirm(change).await?;
    if confirmed.on_record {
        return Ok(confirmed);
    }
    let lost = format!("{} of `{}` is no longer on record", change.evidence, change.space);
    Err(StoreError::rolled_back(&change.space, change.reached, lost))
}

/// The same of a change that cannot be undone: where it cannot be looked at, it is in doubt.
pub(crate) async fn make_sure_or_burn(
    store: &Store,
    floors: &Arc<Floors>,
    change: &Confirm,
) -> Result<Confirmed, StoreError> {
    make_sure(store, floors, change).await.map_err(|error| match error {
        StoreError::Unavailable(problem) => StoreError::InDoubt(problem),
        error => error,
    })
}

/// Makes a granted lease safe to use: it is made sure of, and `keys` learns of its generations and of
/// the ordinals in it that names occupy; from the grant on, no name can be added there.
///
/// A lease that cannot be settled goes back, because nothing of it has left; where even that is not
/// certain, it is burned.
pub(crate) async fn settle(
    store: &Store,
    floors: &Arc<Floors>,
    keys: &Keys,
    ask: &LeaseAsk,
    grant: &Grant,
) -> Result<(), StoreError> {
    let settle = async {
        let change = Confirm {
            space: ask.space.clone(),
            reached: grant.mark,
            evidence: Evidence::Lease {
                lease: grant.lease,
                holder: ask.instance.id.clone(),
                end: grant.ordinals.end,
            },
            skips_in: grant.ordinals.clone(),
        };
        let confirmed = make_sure(store, floors, &change).await?;
        keys.follow(&confirmed.space.definition)?;
        reach(store, keys, grant.ordinals.end, confirmed.space.mark).await?;
        // The floor knows the lengths too before a key of theirs leaves.
        let grown = Lengths::of(&keys.grown());
        raise_to(floors, &ask.space, Mark { grown, ..grant.mark }).await?;
        keys.skips().add(&confirmed.skips);
        Ok::<(), StoreError>(())
    };
    match settle.await {
        settled @ (Ok(()) | Err(StoreError::RolledBack(_))) => settled,
        Err(error) => match store.leases.give_back(&[GiveBack::whole(ask, grant)]).await.as_deref()
        {
            Ok([Ok(_)]) => Err(error),
            _ => Err(StoreError::InDoubt(error.to_string())),
        },
    }
}
