//! What the SQL stores share about their schemas.

use refinery::{Runner, Target};

use crate::store::StoreError;

/// The newest version that this keymill knows.
pub(super) fn latest(runner: &Runner) -> i32 {
    runner.get_migrations().iter().map(refinery::Migration::version).max().unwrap_or_default()
}

/// The runner as all stores use it. A newer keymill may have added to the schema, and the older
/// one still runs on it.
pub(super) fn tolerant(runner: Runner) -> Runner {
    runner.set_abort_missing(false).set_target(Target::Latest)
}

/// What was applied, for people.
pub(super) fn applied(report: &refinery::Report) -> Vec<String> {
    report.applied_migrations().iter().map(ToString::to_string).collect()
}

/// What to say when a schema cannot be brought up to date.
pub(super) fn error(place: &str, error: &refinery::Error) -> StoreError {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    StoreError::Broken(format!("the schema of {place} cannot be brought up to date: {text}"))
}
