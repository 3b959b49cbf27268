//! The schema of a PostgreSQL store: made, or brought up to date.

use super::connection::{Connection, Hosts};
use crate::store::pool::{MIGRATE_MAX, within_limit};
use crate::store::{Opening, StoreError, schema};

/// The version of the schema, where there is one.
const SCHEMA_VERSION: &str = "SELECT max(version) FROM refinery_schema_history";
/// Held while the schema is made or changed: "keymill" in ASCII.
const MIGRATION_LOCK: i64 = 0x006b_6579_6d69_6c6c;

mod migrations {
    refinery::embed_migrations!("migrations/postgres");
}

impl Hosts {
    /// Makes or updates the schema as `opening` has it; whether it was made.
    pub(super) async fn prepare(&self, opening: Opening) -> Result<bool, StoreError> {
        self.meet_all().await;
        let connection = self.connect().await?;
        let version = connection.schema_version().await?;
        if version.is_none() && !opening.create {
            let (place, schema) = (self.shown(), &self.schema);
            return Err(StoreError::Broken(format!(
                "{place} has no schema `{schema}`, and it is not created"
            )));
        }
        let latest = schema::latest(&migrations::migrations::runner());
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

    async fn migrate_on(&self, mut connection: Connection) -> Result<Vec<String>, StoreError> {
        let limit = MIGRATE_MAX.as_millis();
        let (schema, place) = (&self.schema, self.shown());
        connection
            .run(&format!(
                "SET lock_timeout = {limit}; SET statement_timeout = 0;
                 SELECT pg_advisory_lock({MIGRATION_LOCK})"
            ))
            .await?;
        // Asked before, because who may use a schema may still not be allowed to make one.
        let exists = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
        if connection.query(exists, &[schema]).await?.is_empty() {
            connection.run(&format!("CREATE SCHEMA \"{schema}\"")).await?;
        }
        let runner = schema::tolerant(migrations::migrations::runner());
        let report = runner.run_async(&mut connection.client).await;
        Ok(schema::applied(&report.map_err(|error| schema::error(&place, &error))?))
    }
}

impl Connection {
    async fn schema_version(&self) -> Result<Option<i32>, StoreError> {
        let exists = "SELECT to_regclass('refinery_schema_history') IS NOT NULL";
        if !self.query(exists, &[]).await?[0].get::<_, bool>(0) {
            return Ok(None);
        }
        Ok(self.query(SCHEMA_VERSION, &[]).await?[0].get(0))
    }
}
