//! Leases through the fence: granted and made sure of, or given back.

use std::ops::Range;

use super::Fence;
use super::floors::{floors_of, raise_all};
use crate::space::codec::SpaceCodec;
use crate::store::{
    Confirm, Evidence, Floor, GiveBack, Grant, LeaseAsk, Lengths, Mark, StoreError,
};

impl Fence {
    /// Leases ordinals that are safe to use: the lease is made sure of, and `codec` knows of its generations and
    /// of the ordinals in it that names occupy; from the grant on, no name can be added there.
    ///
    /// A lease that cannot be made sure of goes back, because nothing of it has left; where even that is not
    /// certain, it is burned.
    pub(crate) async fn lease(
        &self,
        ask: &LeaseAsk,
        codec: &SpaceCodec,
    ) -> Result<Grant, StoreError> {
        let floor = self.floor(&ask.space).await?;
        let grant = self.store.leases.lease(ask, &floor).await?;
        check_grant(&grant, ask.size);
        match self.settle(ask, &grant, codec).await {
            Ok(()) => Ok(grant),
            Err(error @ StoreError::RolledBack(_)) => Err(error),
            Err(error) => {
                let back = (GiveBack::whole(ask, &grant), floor);
                match self.store.leases.give_back(&[back]).await.as_deref() {
                    Ok([Ok(_)]) => Err(error),
                    _ => Err(StoreError::InDoubt(error.to_string())),
                }
            }
        }
    }

    /// Closes leases, all in one commit, and raises the floors. Each space is refused or taken alone.
    pub(crate) async fn give_back(
        &self,
        backs: Vec<GiveBack>,
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        let spaces = backs.iter().map(|back| back.space.clone()).collect();
        let floors = floors_of(&self.floors, spaces).await?;
        let backs: Vec<(GiveBack, Floor)> = backs.into_iter().zip(floors).collect();
        let answers = self.store.leases.give_back(&backs).await?;
        let marks = backs.into_iter().zip(&answers);
        let marks = marks.filter_map(|((back, _), mark)| Some((back.space, *mark.as_ref().ok()?)));
        raise_all(&self.floors, marks.collect()).await?;
        Ok(answers)
    }

    async fn settle(
        &self,
        ask: &LeaseAsk,
        grant: &Grant,
        codec: &SpaceCodec,
    ) -> Result<(), StoreError> {
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
        let confirmed = self.make_sure(&change).await?;
        codec.follow(&confirmed.space.definition)?;
        self.reach(codec, grant.ordinals.end, confirmed.space.mark).await?;
        // The floor knows the lengths too before a key of theirs leaves.
        let grown = Lengths::of(&codec.grown());
        self.raise(&ask.space, Mark { grown, ..grant.mark }).await?;
        codec.skips().add(&confirmed.skips);
        Ok(())
    }
}

/// The second half of the pair: what the store returned is what was asked for.
fn check_grant(grant: &Grant, size: u64) {
    let Range { start, end } = grant.ordinals;
    assert!(start < end && end - start <= size, "asked for {size}, granted {grant:?}");
    assert!(end <= grant.mark.next, "granted beyond `next`: {grant:?}");
}
