//! The settings of a cache.

use std::time::Duration;

use super::CachedKeyspace;
use crate::keyspace::Keyspace;

/// The longest age of a key: far beyond any that makes sense, and within what clocks can count.
const MAX_AGE_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Makes a [`CachedKeyspace`] with settings of its own.
#[derive(Debug, Clone)]
pub struct CacheBuilder {
    keyspace: Keyspace,
    settings: Settings,
}

/// What a cache holds, and for how long.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// How much demand to hold.
    pub(super) horizon: Duration,
    pub(super) keys_min: u32,
    pub(super) keys_max: u32,
    pub(super) max_age: Duration,
    /// Whether to cache keys of every kind of keyspace.
    pub(super) any_keyspace: bool,
}

impl CacheBuilder {
    pub(crate) fn new(keyspace: Keyspace) -> CacheBuilder {
        CacheBuilder { keyspace, settings: Settings::default() }
    }

    /// How long the cache is to last at the present rate of takes; 30 seconds by default. When half of it is used, more
    /// keys are fetched.
    pub fn horizon(mut self, horizon: Duration) -> CacheBuilder {
        self.settings.horizon = horizon;
        self
    }

    /// The fewest keys to hold, however rarely they are taken; 32 by default.
    pub fn keys_min(mut self, keys_min: u32) -> CacheBuilder {
        self.settings.keys_min = keys_min;
        self
    }

    /// The most keys to hold, however often they are taken; 100,000 by default. A key takes as many bytes as it has
    /// characters.
    pub fn keys_max(mut self, keys_max: u32) -> CacheBuilder {
        self.settings.keys_max = keys_max;
        self
    }

    /// How old a key may be when it is handed out; ten minutes by default, and a year at most. It bounds how long keys are used after the
    /// keyspace was sealed, or the token revoked.
    pub fn max_age(mut self, max_age: Duration) -> CacheBuilder {
        self.settings.max_age = max_age;
        self
    }

    /// Caches keys of every kind of keyspace, also where a fetch is recorded as a use, keys are not to be wasted, or their
    /// order matters. The settings of the keyspace are not looked at, so that the right `take` suffices.
    pub fn any_keyspace(mut self) -> CacheBuilder {
        self.settings.any_keyspace = true;
        self
    }

    /// The cache. It fetches nothing before the first take.
    pub fn build(self) -> CachedKeyspace {
        let CacheBuilder { keyspace, mut settings } = self;
        settings.keys_min = settings.keys_min.max(1);
        settings.keys_max = settings.keys_max.max(settings.keys_min);
        settings.max_age = settings.max_age.min(MAX_AGE_MAX);
        CachedKeyspace::new(keyspace, settings)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            horizon: Duration::from_secs(30),
            keys_min: 32,
            keys_max: 100_000,
            max_age: Duration::from_secs(600),
            any_keyspace: false,
        }
    }
}
