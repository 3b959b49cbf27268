//! What `Store` promises, tested on every store with the same code.
//!
//! Adding a store is one line in [`on_every_store`]. A case never knows which store it runs on.

use std::sync::Arc;

use keymill::floor::{Floor, Mark};
use keymill::instance::Instance;
use keymill::space::{Definition, Tuning};
use keymill::store::{Created, GiveBack, Grant, LeaseAsk, NewSpace, Opening, Store, StoreError};

mod grow;
mod leases;
mod names;
mod record;
mod spaces;
mod went_back;

use grow::*;
use leases::*;
use names::*;
use record::*;
use spaces::*;
use went_back::*;

/// Runs each case on each store; a case gets a space, and a store in the server, of its own.
macro_rules! on_every_store {
    ($($case:ident)*) => {
        mod sqlite {
            use super::*;

            $(#[tokio::test]
            async fn $case() {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", folder.path().join("keymill.db").display());
                super::$case(&Case::new(&url).await).await;
            })*
        }

        on_servers! { postgres $($case)* }
        on_servers! { mysql $($case)* }
        on_servers! { redis $($case)* }
        #[cfg(feature = "etcd")]
        on_servers! { etcd $($case)* }
    };
}

/// The same on a server, which `backends` has started.
macro_rules! on_servers {
    ($store:ident $($case:ident)*) => {
        mod $store {
            use super::*;

            $(#[tokio::test]
            async fn $case() {
                if let Some(url) = crate::servers::new_store(stringify!($store)) {
                    super::$case(&Case::new(&url).await).await;
                }
            })*
        }
    };
}

on_every_store! {
    the_identity_is_the_same_through_every_handle
    a_space_is_made_once_and_found_after
    names_are_compared_as_bytes
    tuning_is_a_change_like_any_other
    leases_are_disjoint_and_follow_each_other
    a_lease_never_takes_more_than_its_share_but_always_one
    a_space_ends_with_its_last_ordinal
    exhausted_says_how_many_are_held_elsewhere
    a_spent_lease_is_closed_at_its_end
    what_came_back_is_granted_first
    only_the_holder_gives_back_and_only_once
    a_rest_that_does_not_end_where_the_lease_does_is_not_taken
    a_change_below_the_floor_is_refused
    another_store_is_refused
    a_space_that_is_gone_is_a_store_that_went_back
    a_last_lease_that_is_gone_is_a_store_that_went_back
    an_advance_goes_beyond_everything_seen
    an_advance_never_goes_back_or_past_the_end
    an_advance_goes_beyond_the_eras_that_were_seen
    a_space_that_was_seen_and_is_gone_is_not_made_again
    a_sealed_space_grants_nothing
    the_lease_of_an_ordinal_is_the_one_that_drew_it
    leases_are_listed_page_by_page
    instances_are_listed_with_their_last_word
    a_name_is_made_once_and_found_after
    a_name_that_was_granted_is_taken
    a_named_ordinal_is_skipped_for_ever
    a_batch_tells_of_each_name
    names_know_the_floor_and_the_seal
    a_key_is_a_name_or_granted_never_both
    growing_makes_more_ordinals
    a_growth_is_made_once
    a_growth_that_does_not_continue_the_space_is_refused
    many_who_grow_at_once_grow_once
    a_sealed_space_does_not_grow
    growing_knows_the_floor_but_for_a_growth_that_was_lost
    names_located_among_other_generations_are_refused
    names_without_an_ordinal_are_listed_page_by_page
    the_first_secret_stays
    ordinals_beyond_2_to_the_53_come_through_unchanged
    many_instances_at_once_never_share_an_ordinal
    a_safe_store_has_no_unsafe_finding
}

struct Case {
    url: String,
    store: Arc<dyn Store>,
    instance: Instance,
    space: String,
}

impl Case {
    async fn new(url: &str) -> Case {
        let instance = Instance::this_process();
        Case {
            url: url.to_owned(),
            store: keymill::store::open(url, Opening::default()).await.unwrap(),
            space: format!("space-{}", instance.id),
            instance,
        }
    }

    async fn with_capacity(&self, capacity: u64) -> &Case {
        self.create(&self.space, capacity, 0).await;
        self
    }

    async fn create(&self, name: &str, capacity: u64, start: u64) -> Created {
        let new = NewSpace {
            name: name.to_owned(),
            definition: Definition::default(),
            tuning: Tuning::default(),
            fingerprint: Some("f00d".to_owned()),
            capacity,
            start,
        };
        let floor = self.floor(0, 0).await;
        self.store.create(&new, &floor).await.unwrap()
    }

    fn ask(&self, size: u64) -> LeaseAsk {
        LeaseAsk {
            space: self.space.clone(),
            instance: self.instance.clone(),
            size,
            share: 1,
            floor: Floor { store: String::new(), mark: Mark::default() },
            last_lease: None,
            spent: Vec::new(),
        }
    }

    async fn lease_as(&self, mut ask: LeaseAsk) -> Result<Grant, StoreError> {
        if ask.floor.store.is_empty() {
            ask.floor.store = self.store.identity().await.unwrap();
        }
        self.store.lease(&ask).await
    }

    async fn lease(&self, size: u64) -> Grant {
        self.lease_as(self.ask(size)).await.unwrap()
    }

    async fn floor(&self, revision: u64, next: u64) -> Floor {
        Floor {
            store: self.store.identity().await.unwrap(),
            mark: Mark { revision, next, ..Mark::default() },
        }
    }

    async fn give_back(&self, grant: &Grant, undrawn: u64) -> Result<Mark, StoreError> {
        let end = grant.ordinals.end;
        let back = GiveBack {
            space: self.space.clone(),
            instance: self.instance.id.clone(),
            lease: grant.lease,
            rest: end - undrawn..end,
            floor: self.floor(0, 0).await,
        };
        self.store.give_back(&back).await
    }

    async fn mark(&self) -> Mark {
        self.store.space(&self.space).await.unwrap().mark
    }
}

fn to(next: u64) -> Mark {
    Mark { next, ..Mark::default() }
}

fn is_went_back<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::WentBack(_)))
}
