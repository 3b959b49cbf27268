//! How a schema on a server is made, and brought up to date.
//!
//! refinery embeds the migrations, and fixes what their history looks like. Its runner is not used: it takes
//! connections and begins transactions of its own, in which neither a lock is held nor the schema is set.

use refinery::{Migration, Runner};

use super::driver::Result;
use super::hosts::Link;
use crate::store::connections::{within_call, within_limit};
use crate::store::{Opening, StoreError};

pub(super) const HISTORY: &str =
    "SELECT version, name, checksum FROM refinery_schema_history ORDER BY version";
pub(super) const HISTORY_VERSION: &str = "SELECT max(version) FROM refinery_schema_history";
pub(super) const HISTORY_MAKE: &str = "CREATE TABLE IF NOT EXISTS refinery_schema_history
    (version int4 PRIMARY KEY, name varchar(255), applied_on varchar(255), checksum varchar(255))";

/// A connection over which a schema is made or changed. It ends with that.
pub(super) trait Migrate: Link {
    /// The migrations that this keymill knows.
    fn runner() -> Runner;

    /// The version of the schema, where there is one.
    fn schema_version(&mut self) -> impl Future<Output = Result<Option<i32>>> + Send;

    /// Waits until nobody else changes the schema, and makes what its history is kept in.
    fn lock_schema(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// What was applied, by version.
    fn history(&mut self) -> impl Future<Output = Result<Vec<Applied>>> + Send;
}

/// A migration in the history: its version, name and checksum.
pub(super) type Applied = (i32, String, String);

/// Makes or updates a schema as `opening` has it; whether it was made. `schema` is its name, for people.
pub(super) async fn prepare<C: Migrate>(
    mut connection: C,
    schema: &str,
    opening: Opening,
) -> Result<bool> {
    let version = within_call(connection.schema_version()).await?;
    if version.is_none() && !opening.create {
        return Err(StoreError::empty(schema, opening));
    }
    let latest = C::runner().get_migrations().iter().map(Migration::version).max();
    if !opening.migrate || version >= latest {
        return Ok(false);
    }
    // Of several that find no schema, one makes it.
    let applied = migrate(connection, schema).await?;
    Ok(version.is_none() && !applied.is_empty())
}

/// Brings a schema up to date; the names of what was applied.
pub(super) async fn migrate<C: Migrate>(mut connection: C, schema: &str) -> Result<Vec<String>> {
    within_limit(async {
        connection.lock_schema().await?;
        let runner = C::runner();
        let pending = pending(runner.get_migrations(), &connection.history().await?, schema)?;
        for migration in &pending {
            connection.run(migration.sql().expect("it is embedded with its statements")).await?;
            connection.run(&entry(migration)).await?;
        }
        connection.run("COMMIT").await?;
        Ok(pending.iter().map(ToString::to_string).collect())
    })
    .await
}

/// What is not in the history yet. A newer keymill may have added to the schema, and this one still runs
/// on it; but what both know must be the same.
fn pending<'a>(
    known: &'a [Migration],
    history: &[Applied],
    schema: &str,
) -> Result<Vec<&'a Migration>> {
    for (version, name, checksum) in history {
        let same = known.iter().find(|known| known.version() == *version);
        if same.is_some_and(|it| it.name() != name || it.checksum().to_string() != *checksum) {
            return Err(StoreError::Broken(format!(
                "{schema} cannot be brought up to date: its version {version} is `{name}` \
                 ({checksum}), which differs in this version of keymill"
            )));
        }
    }
    let latest = history.last().map(|applied| applied.0);
    let is_new = |known: &&Migration| Some(known.version()) > latest;
    let mut pending: Vec<&Migration> = known.iter().filter(is_new).collect();
    pending.sort_by_key(|migration| migration.version());
    Ok(pending)
}

/// The entry of a migration in the history, as refinery writes it.
fn entry(migration: &Migration) -> String {
    format!(
        "INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
         VALUES ({}, '{}', '{}', '{}')",
        migration.version(),
        migration.name(),
        jiff::Timestamp::now(),
        migration.checksum()
    )
}
