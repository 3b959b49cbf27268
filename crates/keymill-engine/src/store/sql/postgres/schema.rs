//! The schema of a PostgreSQL store: made, or brought up to date.
//!
//! All in one transaction, on one connection, so that it works behind a pooler too.

use refinery::Runner;
use tokio_postgres::types::Type;

use super::begin::{SYNCHRONOUS, begin};
use super::connection::Connection;
use super::server::PostgresServer;
use crate::store::Opening;
use crate::store::connections::MIGRATE_MAX;
use crate::store::sql::driver::{Aim, Result};
use crate::store::sql::hosts::{Hosts, Link};
use crate::store::sql::migrations::{
    self, Applied, HISTORY, HISTORY_MAKE, HISTORY_VERSION, Migrate,
};

/// Held while the schema is made or changed: "keymill" in ASCII.
const MIGRATION_LOCK: i64 = 0x006b_6579_6d69_6c6c;
const HISTORY_EXISTS: &str = "SELECT to_regclass('refinery_schema_history') IS NOT NULL";

mod embedded {
    refinery::embed_migrations!("migrations/postgres");
}

impl Hosts<PostgresServer> {
    /// Makes or updates the schema as `opening` has it; whether it was made.
    pub(super) async fn prepare(&self, opening: Opening) -> Result<bool> {
        // The highest timeline tells a primary that was cut off from the one that has its place.
        self.meet_all().await;
        migrations::prepare(self.connect().await?, &self.schema_name(), opening).await
    }

    /// Brings the schema up to date; the names of what was applied.
    pub(super) async fn migrate(&self) -> Result<Vec<String>> {
        migrations::migrate(self.connect().await?, &self.schema_name()).await
    }

    fn schema_name(&self) -> String {
        format!("the schema `{}` of {}", self.server.schema, self.url.shown())
    }
}

impl Migrate for Connection {
    fn runner() -> Runner {
        embedded::migrations::runner()
    }

    async fn schema_version(&mut self) -> Result<Option<i32>> {
        if self.inspect(HISTORY_EXISTS).await?.get(0) != Some("t") {
            return Ok(None);
        }
        let row = self.inspect(HISTORY_VERSION).await?;
        Ok(row.get(0).and_then(|version| version.parse().ok()))
    }

    async fn lock_schema(&mut self) -> Result<()> {
        let (schema, limit) = (self.schema.clone(), MIGRATE_MAX.as_millis());
        let begin = begin(Aim::Change, &schema);
        self.run(&format!(
            "{begin}; {SYNCHRONOUS}; SET LOCAL lock_timeout = {limit};
             SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"
        ))
        .await?;
        // Asked before, because who may use a schema may still not be allowed to make one.
        let exists = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
        if self.query(exists, &[(&schema, Type::TEXT)]).await?.is_empty() {
            self.run(&format!("CREATE SCHEMA \"{schema}\"")).await?;
        }
        if !self.query(HISTORY_EXISTS, &[]).await?[0].get::<_, bool>(0) {
            self.run(HISTORY_MAKE).await?;
        }
        Ok(())
    }

    async fn history(&mut self) -> Result<Vec<Applied>> {
        let rows = self.query(HISTORY, &[]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
    }
}
