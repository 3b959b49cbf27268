//! What a service in a test is made of, here and in the tests of the binary.

use std::path::Path;
use std::time::Duration;

use keymill_core::Blocklist;
use keymill_engine::operations::{Limits, OpenedStore, Setup};

/// An instance on a store, without a blocklist. It beats often where it beats at all.
pub(crate) fn setup(store: impl Into<OpenedStore>, data_dir: &Path) -> Setup {
    std::fs::create_dir_all(data_dir).unwrap();
    Setup {
        store: store.into(),
        data_dir: data_dir.to_owned(),
        secret: None,
        blocklist: Blocklist::none(),
        alias_rules: Default::default(),
        limits: Limits {
            wait_max: Duration::from_secs(10),
            heartbeat_every: Duration::from_millis(100),
            ..Limits::default()
        },
        require_existing: false,
        worker: None,
        clock: Default::default(),
        unsafe_store: None,
    }
}
