//! What `Store` promises, tested on every store with the same code.
//!
//! Adding a store is one line in [`on_every_store`]. A case never knows which store it runs on.
//! It has a space of its own, and shares the store with the other cases of a run. One that looks at
//! more than its spaces, such as the secret or a list of all instances, or that names a space by
//! itself, is marked `#[alone]`: it has a new store.

use std::ops::Range;

use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{
    Confirm, Confirmed, Created, Evidence, Floor, GiveBack, Grant, LeaseAsk, Mark, NewSpace,
    Opening, Pulse, Store, StoreError,
};
use keymill_engine::space::{Definition, Tuning};

mod confirm;
mod grow;
mod heartbeat;
mod keys;
mod leases;
mod moving;
mod names;
mod record;
mod returns;
mod rolled_back;
mod sightings;
mod spaces;
mod tokens;
mod windows;

use confirm::*;
use grow::*;
use heartbeat::*;
use keys::*;
use leases::*;
use moving::*;
use names::*;
use record::*;
use returns::*;
use rolled_back::*;
use sightings::*;
use spaces::*;
use tokens::*;
use windows::*;

/// Runs each case on each store.
macro_rules! on_every_store {
    ($($cases:tt)*) => {
        on_sqlite! { sqlite $($cases)* }
        on_servers! { postgres, postgres $($cases)* }
        on_servers! { mysql, mysql $($cases)* }
        on_servers! { mysql9, mysql9 $($cases)* }
        on_servers! { redis, redis $($cases)* }
        #[cfg(feature = "etcd")]
        on_servers! { etcd, etcd $($cases)* }
    };
}

/// The same on those that keep rows of keys.
macro_rules! on_stores_with_keys {
    ($($cases:tt)*) => {
        on_sqlite! { keys_on_sqlite $($cases)* }
        on_servers! { keys_on_postgres, postgres $($cases)* }
        on_servers! { keys_on_mysql, mysql $($cases)* }
        on_servers! { keys_on_mysql9, mysql9 $($cases)* }
        on_servers! { keys_on_redis, redis $($cases)* }
    };
}

/// The same on those that put single keys on record.
macro_rules! on_stores_that_note_keys {
    ($($cases:tt)*) => {
        on_sqlite! { notes_on_sqlite $($cases)* }
        on_servers! { notes_on_postgres, postgres $($cases)* }
        on_servers! { notes_on_mysql, mysql $($cases)* }
        on_servers! { notes_on_mysql9, mysql9 $($cases)* }
    };
}

macro_rules! on_sqlite {
    ($module:ident $($(#[$alone:ident])? $case:ident)*) => {
        mod $module {
            use super::*;

            $(#[tokio::test]
            async fn $case() {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", folder.path().join("keymill.db").display());
                super::$case(&Case::new(&url).await).await;
            })*
        }
    };
}

/// Where a case finds a store of a kind.
macro_rules! url {
    ($store:ident) => {
        crate::servers::shared_store(stringify!($store))
    };
    ($store:ident alone) => {
        crate::servers::new_store(stringify!($store))
    };
}

/// The same on a server, which `backends` has started.
macro_rules! on_servers {
    ($module:ident, $store:ident $($(#[$alone:ident])? $case:ident)*) => {
        mod $module {
            use super::*;

            $(#[tokio::test]
            async fn $case() {
                if let Some(url) = url!($store $($alone)?) {
                    super::$case(&Case::new(&url).await).await;
                }
            })*
        }
    };
}

on_every_store! {
    #[alone] the_identity_is_the_same_through_every_handle
    #[alone] a_space_is_made_once_and_found_after
    #[alone] names_are_compared_as_bytes
    tuning_is_a_change_like_any_other
    leases_are_disjoint_and_follow_each_other
    a_lease_never_takes_more_than_its_share_but_always_one
    a_space_ends_with_its_last_ordinal
    exhausted_says_how_many_are_held_elsewhere
    a_spent_lease_is_closed_at_its_end
    what_came_back_is_granted_first
    only_the_holder_gives_back_and_only_once
    a_rest_that_does_not_end_where_the_lease_does_is_not_taken
    leases_of_many_spaces_come_back_at_once_and_each_is_judged_alone
    hundreds_of_leases_come_back_at_once
    what_came_back_below_the_end_of_drawing_is_granted_again
    a_lease_is_confirmed_with_its_skips_in_one_answer
    a_mark_above_the_stores_is_a_store_that_was_rolled_back
    a_lease_of_another_or_a_shorter_one_is_not_on_record
    a_name_is_on_record_for_its_owner_until_it_is_removed
    sightings_rise_by_instance_and_change_no_mark
    nothing_is_sighted_of_a_space_that_is_not_there
    an_advance_goes_beyond_sightings_and_drops_them
    #[alone] a_heartbeat_tells_marks_in_the_order_of_bytes
    a_heartbeat_brings_the_records_of_what_changed
    a_heartbeat_tells_every_lease_that_is_gone
    a_change_below_the_floor_is_refused
    another_store_is_refused
    a_space_that_is_gone_is_a_store_that_was_rolled_back
    a_last_lease_that_is_gone_is_a_store_that_was_rolled_back
    an_advance_goes_beyond_everything_seen
    an_advance_never_goes_back_or_past_the_end
    an_advance_goes_beyond_the_eras_that_were_seen
    a_space_that_was_seen_and_is_gone_is_not_made_again
    a_sealed_space_grants_nothing
    the_lease_of_an_ordinal_is_the_one_that_drew_it
    #[alone] leases_are_listed_page_by_page
    #[alone] instances_are_listed_with_their_last_word
    a_name_is_made_once_and_found_after
    a_name_that_was_granted_is_taken
    a_named_ordinal_is_skipped_for_ever
    a_batch_tells_of_each_name
    names_know_the_floor_and_the_seal
    keys_in_use_elsewhere_are_taken_and_skipped
    names_of_a_purpose_are_listed_by_key_page_by_page
    #[alone] names_are_counted_by_space
    a_key_is_a_name_or_granted_never_both
    #[alone] growing_makes_more_ordinals
    a_growth_is_made_once
    a_growth_that_does_not_continue_the_space_is_refused
    many_who_grow_at_once_grow_once
    a_sealed_space_does_not_grow
    growing_knows_the_floor
    a_growth_that_was_lost_is_made_again_by_an_advance
    names_located_among_other_generations_are_refused
    names_without_an_ordinal_are_listed_page_by_page
    #[alone] the_first_secret_stays
    ordinals_beyond_2_to_the_53_come_through_unchanged
    many_instances_at_once_never_share_an_ordinal
    a_worker_is_leased_with_a_window_that_is_on_record
    an_extension_begins_where_the_window_ended
    a_tenancy_is_on_record_as_far_as_its_window_reaches
    an_extension_that_adds_nothing_changes_nothing
    instances_get_the_lowest_workers_that_are_free
    what_is_not_held_just_so_is_not_extended
    where_every_worker_is_held_there_is_none
    a_worker_is_free_once_its_window_has_ended
    a_released_worker_is_free_from_where_it_was_not_used
    a_worker_is_released_once_and_by_its_holder
    a_certain_worker_is_leased_or_none
    next_is_the_highest_end_of_any_window
    windows_know_the_floor_and_the_last_lease
    a_space_without_a_record_has_no_window
    a_sealed_space_has_no_window
    no_window_begins_below_an_advance
    windows_end_with_the_time_of_their_space
    a_space_whose_time_has_run_out_is_exhausted
    many_instances_at_once_never_share_a_worker
    however_instances_race_the_windows_of_a_worker_are_disjoint
    #[alone] a_safe_store_has_no_unsafe_finding
    a_moved_space_has_the_same_rows_and_goes_on_where_it_was
    nothing_is_taken_of_a_space_that_is_being_imported
    a_change_of_settings_does_not_end_an_import
    an_import_below_the_floor_is_refused
    an_import_that_was_advanced_begins_again_beyond_it
    rows_that_are_there_stay_as_they_are
    only_a_space_that_is_importing_takes_rows
    #[alone] many_rows_are_imported_at_once_and_their_holders_known
    keys_in_use_are_taken_whichever_store_they_come_from
    a_worker_is_held_wherever_its_window_is_moved_to
    #[alone] a_token_list_is_empty_at_first
    #[alone] a_token_list_is_replaced_at_the_revision_that_was_read
    #[alone] of_many_who_replace_the_token_list_at_once_one_does
    #[alone] a_token_list_below_the_floor_is_refused
    #[alone] a_token_list_goes_on_in_the_next_era_after_a_rollback
    #[alone] the_token_list_of_another_store_is_refused
    #[alone] acts_are_listed_in_their_order_page_by_page
    #[alone] acts_at_once_are_all_on_record
}

on_stores_with_keys! {
    a_fill_writes_the_keys_of_what_it_is_granted
    a_fill_leaves_out_what_names_occupy
    a_fill_does_nothing_where_there_is_enough
    a_fill_ends_with_the_space
    a_claim_moves_keys_from_available_to_used
    a_claim_never_takes_more_than_its_share_but_always_one
    an_empty_pool_gives_nothing
    a_claimed_key_is_never_claimed_again
    many_instances_at_once_never_claim_the_same_key
    released_keys_are_available_again_by_their_claimer_and_once
    what_was_released_is_found_before_the_end_of_the_last_claim
    imported_keys_are_claimed_like_others
    changes_of_keys_below_the_floor_are_refused
    a_sealed_space_fills_and_claims_nothing
    what_was_available_before_an_advance_is_never_claimed
    a_retired_key_keeps_its_first_time_of_retiring
    a_retired_key_is_not_released
    a_key_that_is_retired_in_the_pool_is_never_claimed
    a_key_without_a_row_is_retired_as_used
    a_claimed_key_lives_as_long_as_its_ttl
    used_keys_are_listed_by_time_page_by_page
    used_keys_are_listed_from_one_time_to_another
    available_keys_are_listed_page_by_page_as_they_are_claimed
    the_keys_of_two_spaces_are_apart
    a_digest_gives_the_same_key_for_the_same_input
    a_digest_moves_on_where_a_candidate_is_taken
    a_digest_without_a_free_candidate_has_no_key
    instances_at_once_agree_on_digests
    the_key_of_a_digest_is_nobody_elses
    a_digest_chosen_by_other_generations_is_outdated
    a_used_key_is_on_record_for_the_instance_that_claimed_it
    a_digest_is_on_record_with_its_key
    a_key_that_moves_is_always_found
    a_moved_pool_has_the_same_keys
    nothing_is_claimed_of_a_pool_that_is_being_imported
    what_was_available_before_an_advance_is_not_after_a_move
    what_was_available_before_an_advance_is_not_imported_after_it
    a_used_key_is_never_available_where_both_were_moved
    moved_digests_give_the_same_keys
}

on_stores_that_note_keys! {
    a_reserved_key_is_found_as_reserved_and_not_claimed
    a_reservation_that_has_outlived_its_time_is_anybodys
    what_was_reserved_too_long_can_be_used_at_once
    many_instances_at_once_never_use_a_reserved_key_twice
    a_note_moves_a_reserved_key_to_its_caller_once
    reserved_keys_are_released_by_their_holder_and_once
    a_reserved_key_that_is_retired_is_not_handed_out
    notes_of_leased_keys_are_rows
    a_noted_key_is_on_record_and_a_reserved_one_is_not
    keys_reserved_before_an_advance_are_not_handed_out
    notes_and_reservations_below_the_floor_are_refused
    used_keys_are_listed_by_caller
    used_keys_of_the_same_time_are_listed_by_id
    reserved_keys_are_available_where_they_are_moved_to
}

struct Case {
    url: String,
    store: Store,
    /// The floor of one who has seen nothing of the store.
    unseen: Floor,
    instance: Instance,
    space: String,
}

impl Case {
    async fn new(url: &str) -> Case {
        let instance = Instance::this_process();
        let store = keymill_engine::internals::store::open(url, Opening::default()).await.unwrap();
        let identity = store.admin.identity().await.unwrap();
        Case {
            url: url.to_owned(),
            store,
            unseen: Floor { store: identity, mark: Mark::default() },
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
        self.store.spaces.create(&new, &self.unseen).await.unwrap()
    }

    fn ask(&self, size: u64) -> LeaseAsk {
        LeaseAsk {
            space: self.space.clone(),
            instance: self.instance.clone(),
            size,
            share: 1,
            last_lease: None,
            spent: Vec::new(),
        }
    }

    async fn lease_as(&self, ask: LeaseAsk) -> Result<Grant, StoreError> {
        self.lease_above(&self.unseen, &ask).await
    }

    async fn lease_above(&self, floor: &Floor, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        self.store.leases.lease(ask, floor).await
    }

    async fn lease(&self, size: u64) -> Grant {
        self.lease_as(self.ask(size)).await.unwrap()
    }

    /// The floor of one who has seen the space at this point.
    fn floor(&self, revision: u64, next: u64) -> Floor {
        Floor { mark: Mark { revision, next, ..Mark::default() }, ..self.unseen.clone() }
    }

    /// Another space, through the same handle.
    fn beside(&self, space: String) -> Case {
        let (url, store, unseen) = (self.url.clone(), self.store.clone(), self.unseen.clone());
        Case { url, store, unseen, instance: self.instance.clone(), space }
    }

    /// A lease of which the last so many ordinals were not drawn.
    fn back(&self, grant: &Grant, undrawn: u64) -> GiveBack {
        let end = grant.ordinals.end;
        GiveBack {
            space: self.space.clone(),
            instance: self.instance.id.clone(),
            lease: grant.lease,
            end,
            closed_at: end - undrawn,
            returned: Vec::from_iter((undrawn > 0).then_some(end - undrawn..end)),
        }
    }

    async fn give_back(&self, grant: &Grant, undrawn: u64) -> Result<Mark, StoreError> {
        self.give_back_as(&self.back(grant, undrawn)).await
    }

    async fn give_back_as(&self, back: &GiveBack) -> Result<Mark, StoreError> {
        give_back_one(&self.store, back, &self.unseen).await
    }

    /// A sign of life of an instance that has, and serves, nothing.
    fn pulse(&self) -> Pulse {
        Pulse {
            instance: self.instance.clone(),
            address: None,
            stopping: false,
            last_leases: Vec::new(),
            serves: Vec::new(),
        }
    }

    /// Looks for what a change has left, in a space that has come at least this far.
    async fn confirm(
        &self,
        reached: Mark,
        evidence: Evidence,
        skips_in: Range<u64>,
    ) -> Result<Confirmed, StoreError> {
        let space = self.space.clone();
        self.store.snapshots.confirm(&Confirm { space, reached, evidence, skips_in }).await
    }

    /// The ordinals that names occupy.
    async fn skips(&self, ordinals: Range<u64>) -> Vec<u64> {
        self.confirm(Mark::default(), Evidence::Mark, ordinals).await.unwrap().skips
    }

    async fn mark(&self) -> Mark {
        self.store.spaces.space(&self.space).await.unwrap().mark
    }
}

async fn give_back_one(store: &Store, back: &GiveBack, floor: &Floor) -> Result<Mark, StoreError> {
    let mut answers = store.leases.give_back(&[(back.clone(), floor.clone())]).await?;
    assert_eq!(answers.len(), 1, "an answer for each");
    answers.remove(0)
}

fn to(next: u64) -> Mark {
    Mark { next, ..Mark::default() }
}

fn is_rolled_back<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::RolledBack(_)))
}

/// A name that could not be generated.
fn name_only(key: &str) -> keymill_engine::internals::store::NewName {
    keymill_engine::internals::store::NewName { key: key.to_owned(), ordinal: None }
}
