//! The schema of a PostgreSQL store: made, or brought up to date.
//!
//! All in one transaction, on one connection, so that it works behind a pooler too. refinery embeds the
//! migrations and fixes what their history looks like; its runner is not used, because it begins
//! transactions of its own, in which the schema cannot be set.

use refinery::Migration;
use tokio_postgres::types::Type;

use super::begin::{SYNCHRONOUS, View};
use super::connection::Connection;
use super::hosts::Hosts;
use crate::store::connections::{MIGRATE_MAX, within_limit};
use crate::store::sql::migrations;
use crate::store::{Opening, StoreError};

/// Held while the schema is made or changed: "keymill" in ASCII.
const MIGRATION_LOCK: i64 = 0x006b_6579_6d69_6c6c;
const HISTORY_EXISTS: &str = "SELECT to_regclass('refinery_schema_history') IS NOT NULL";
const HISTORY: &str =
    "SELECT version, name, checksum FROM refinery_schema_history ORDER BY version";
const HISTORY_MAKE: &str = "CREATE TABLE refinery_schema_history (version int4 PRIMARY KEY,
    name varchar(255), applied_on varchar(255), checksum varchar(255))";

mod embedded {
    refinery::embed_migrations!("migrations/postgres");
}

/// A migration in the history.
struct Applied {
    version: i32,
    name: String,
    checksum: String,
}

impl Hosts {
    /// Makes or updates the schema as `opening` has it; whether it was made.
    pub(super) async fn prepare(&self, opening: Opening) -> Result<bool, StoreError> {
        self.meet_all().await;
        let connection = self.connect().await?;
        let version = connection.schema_version().await?;
        if version.is_none() && !opening.create {
            let (place, schema) = (self.shown(), &self.schema);
            return Err(StoreError::empty(&format!("the schema `{schema}` of {place}"), opening));
        }
        let latest = migrations::latest(&embedded::migrations::runner());
        if !opening.migrate || version >= Some(latest) {
            return Ok(false);
        }
        // Of several that find no schema, one makes it.
        let applied = within_limit(self.migrate_on(connection)).await?;
        Ok(version.is_none() && !applied.is_empty())
    }

    /// Brings the schema up to date; the names of what was applied.
    pub(super) async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        within_limit(self.migrate_on(self.connect().await?)).await
    }

    /// The connection ends with this, and with it what was not committed.
    async fn migrate_on(&self, connection: Connection) -> Result<Vec<String>, StoreError> {
        let (schema, limit) = (&self.schema, MIGRATE_MAX.as_millis());
        let begin = View::Latest.begin(schema);
        connection
            .run(&format!(
                "{begin}; {SYNCHRONOUS}; SET LOCAL lock_timeout = {limit};
                 SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"
            ))
            .await?;
        // Asked before, because who may use a schema may still not be allowed to make one.
        let exists = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
        if connection.query(exists, &[(schema, Type::TEXT)]).await?.is_empty() {
            connection.run(&format!("CREATE SCHEMA \"{schema}\"")).await?;
        }
        if !connection.query(HISTORY_EXISTS, &[]).await?[0].get::<_, bool>(0) {
            connection.run(HISTORY_MAKE).await?;
        }
        let runner = embedded::migrations::runner();
        let pending = self.pending(runner.get_migrations(), &connection.history().await?)?;
        for migration in &pending {
            connection.run(&step(migration)).await?;
        }
        connection.run("COMMIT").await?;
        Ok(pending.iter().map(ToString::to_string).collect())
    }

    /// What is not in the history yet. A newer keymill may have added to the schema, and this one still
    /// runs on it; but what both know must be the same.
    fn pending<'a>(
        &self,
        known: &'a [Migration],
        history: &[Applied],
    ) -> Result<Vec<&'a Migration>, StoreError> {
        let latest = history.last().map(|applied| applied.version);
        for applied in history {
            let same = known.iter().find(|known| known.version() == applied.version);
            let (name, checksum) = (&applied.name, &applied.checksum);
            if same.is_some_and(|it| it.name() != name || it.checksum().to_string() != *checksum) {
                return Err(StoreError::Broken(format!(
                    "the schema of {} cannot be brought up to date: its version {} is `{name}` \
                     ({checksum}), which differs in this version of keymill",
                    self.shown(),
                    applied.version
                )));
            }
        }
        let is_new = |known: &&Migration| Some(known.version()) > latest;
        let mut pending: Vec<&Migration> = known.iter().filter(is_new).collect();
        pending.sort_by_key(|migration| migration.version());
        Ok(pending)
    }
}

impl Connection {
    /// The version of the schema, where there is one.
    async fn schema_version(&self) -> Result<Option<i32>, StoreError> {
        if self.inspect(HISTORY_EXISTS).await?.get(0) != Some("t") {
            return Ok(None);
        }
        let row = self.inspect("SELECT max(version) FROM refinery_schema_history").await?;
        Ok(row.get(0).and_then(|version| version.parse().ok()))
    }

    async fn history(&self) -> Result<Vec<Applied>, StoreError> {
        let rows = self.query(HISTORY, &[]).await?;
        let applied = rows.iter().map(|row| Applied {
            version: row.get(0),
            name: row.get(1),
            checksum: row.get(2),
        });
        Ok(applied.collect())
    }
}

/// The statements of a migration, and of its entry in the history, as refinery writes it.
fn step(migration: &Migration) -> String {
    format!(
        "{}\n; INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
         VALUES ({}, '{}', '{}', '{}')",
        migration.sql().expect("an embedded migration has its statements"),
        migration.version(),
        migration.name(),
        jiff::Timestamp::now(),
        migration.checksum()
    )
}
