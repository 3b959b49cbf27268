//! Keyspaces on record: what a store is asked about them, and what it answers.

use std::fmt;

use async_trait::async_trait;

use super::{Floor, Mark, SpaceRecord, StoreError};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};

/// The keyspaces on record.
#[async_trait]
pub trait Spaces: fmt::Debug + Send + Sync {
    /// Makes a space, or returns the one that has the name already, whatever its definition. A
    /// name that the floor knows and the store does not is refused: its keys may be in use.
    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError>;

    /// Replaces the changeable settings of a space. What it is importing is none of them, and stays.
    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError>;

    /// Appends a generation: `definition` is the stored one with one more, and `capacity` that of
    /// all. Growing to what is there already changes nothing; one that does not continue the
    /// stored definition is [`StoreError::Outdated`].
    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError>;

    /// One space; [`StoreError::UnknownSpace`] where there is none.
    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError>;

    /// All spaces, by name.
    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError>;

    /// Ends a space: nothing is granted any more. Sealing twice changes nothing.
    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError>;

    /// Moves `next` up to at least that of `to` and of every sighting on record, drops what was given
    /// back and the sightings, and begins a new era of revisions, beyond all that any instance has
    /// seen and beyond `to`. What lies between is never granted. A space that is importing is
    /// [`StoreError::Sealed`].
    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError>;

    /// Writes down how far an instance has seen a space, while the store lies below that: an advance
    /// goes beyond it. One sighting for each instance and space, which only rises. Changes no mark, and
    /// does nothing where there is no such space.
    async fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError>;

    /// The highest of the sightings of a space on record, part by part ([`Mark::max`]).
    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError>;
}

/// A space to make.
#[derive(Debug, Clone)]
pub struct NewSpace {
    /// Its name, never used before.
    pub name: String,
    /// What its keys look like.
    pub definition: Definition,
    /// How it is served.
    pub tuning: Tuning,
    /// Tells the secret behind it, where there is one.
    pub fingerprint: Option<String>,
    /// How many ordinals it has.
    pub capacity: u64,
    /// The first ordinal to grant.
    pub start: u64,
}

/// What `create` found or made.
#[derive(Debug, Clone)]
pub enum Created {
    /// The space is new.
    Made(SpaceRecord),
    /// The name was there already.
    Exists(SpaceRecord),
}
