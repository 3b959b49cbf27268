//! The database of a MySQL store and the tables in it: made, or brought up to date.

use mysql_async::{Conn, Params};
use refinery::Runner;
use tokio::time::timeout;

use super::connection::{Connection, column};
use super::server::MysqlServer;
use crate::store::connections::{CONNECT_MAX, MIGRATE_MAX, within_call};
use crate::store::sql::driver::Result;
use crate::store::sql::hosts::{Hosts, Link};
use crate::store::sql::migrations::{
    self, Applied, HISTORY, HISTORY_MAKE, HISTORY_VERSION, Migrate,
};
use crate::store::url::Host;
use crate::store::{Opening, StoreError};

/// There is no such database.
const UNKNOWN_DATABASE: u16 = 1049;
/// The lock under which a schema is changed. MySQL 9 has no SHA1(), and names of locks end after 64
/// characters.
const SCHEMA_LOCK: &str = "CONCAT('keymill:', LEFT(SHA2(DATABASE(), 256), 32))";
const TABLES: &str = "SELECT DATABASE(), COUNT(*),
    COALESCE(SUM(table_name = 'refinery_schema_history'), 0)
    FROM information_schema.tables WHERE table_schema = DATABASE()";

mod embedded {
    refinery::embed_migrations!("migrations/mysql");
}

impl Hosts<MysqlServer> {
    /// Makes or updates the schema as `opening` has it; whether it was made.
    pub(super) async fn prepare(&self, opening: Opening) -> Result<bool> {
        let schema = self.url.shown();
        if opening.create && opening.migrate {
            self.make_database().await?;
        }
        if !opening.create && self.lacks_database().await {
            return Err(StoreError::empty(&schema, opening));
        }
        // Each would grant what the others grant.
        let masters = self.meet_all().await;
        if masters.len() > 1 {
            return Err(StoreError::Broken(format!(
                "{} accept writes, but only one may: set read_only on the others",
                masters.join(" and ")
            )));
        }
        migrations::prepare(self.connect().await?, &schema, opening).await
    }

    /// Brings the schema up to date; the names of what was applied.
    pub(super) async fn migrate(&self) -> Result<Vec<String>> {
        self.make_database().await?;
        migrations::migrate(self.connect().await?, &self.url.shown()).await
    }

    /// Makes the database, where there is none and this user may.
    async fn make_database(&self) -> Result<()> {
        let mut no_database = self.url.clone();
        no_database.path.clear();
        for host in &self.url.hosts {
            // Not on a server that only follows another: connecting to that fails.
            if self.lacks_database_on(host).await == Some(true)
                && let Ok(mut connection) = self.connect_to(&no_database, host).await
            {
                let make = format!("CREATE DATABASE IF NOT EXISTS `{}`", self.url.path);
                return within_call(connection.run(&make)).await;
            }
        }
        Ok(())
    }

    /// Whether there is no such database on any host that can be reached.
    async fn lacks_database(&self) -> bool {
        let mut lacks = false;
        for host in &self.url.hosts {
            match self.lacks_database_on(host).await {
                Some(false) => return false,
                found => lacks |= found.is_some(),
            }
        }
        lacks
    }

    /// `None`, where a host does not tell.
    async fn lacks_database_on(&self, host: &Host) -> Option<bool> {
        let connect = Conn::new(self.server.options(&self.url, host));
        match timeout(CONNECT_MAX, connect).await {
            Ok(Ok(_)) => Some(false),
            Ok(Err(mysql_async::Error::Server(refusal))) if refusal.code == UNKNOWN_DATABASE => {
                Some(true)
            }
            _ => None,
        }
    }
}

impl Migrate for Connection {
    fn runner() -> Runner {
        embedded::migrations::runner()
    }

    async fn schema_version(&mut self) -> Result<Option<i32>> {
        let rows = self.query(TABLES, Params::Empty).await?;
        let (tables, ours): (i64, i64) = (column(&rows[0], 1), column(&rows[0], 2));
        if ours > 0 {
            return Ok(column(&self.query(HISTORY_VERSION, Params::Empty).await?[0], 0));
        }
        if tables > 0 {
            let (database, server_name): (String, _) =
                (column(&rows[0], 0), &self.route.server_name);
            return Err(StoreError::Broken(format!(
                "the database `{database}` of {server_name} has another program's tables; give keymill a \
                 database of its own"
            )));
        }
        Ok(None)
    }

    async fn lock_schema(&mut self) -> Result<()> {
        // A process that is paused on the way goes on where it was.
        self.run("SET SESSION wait_timeout = 600").await?;
        let limit = MIGRATE_MAX.as_secs();
        let rows = self.query_text(&format!("SELECT GET_LOCK({SCHEMA_LOCK}, {limit})")).await?;
        if column::<Option<i64>>(&rows[0], 0) != Some(1) {
            let server_name = &self.route.server_name;
            return Err(StoreError::Unavailable(format!(
                "{server_name}: another instance has been changing the schema for over {limit} s"
            )));
        }
        self.run(HISTORY_MAKE).await
    }

    async fn history(&mut self) -> Result<Vec<Applied>> {
        let rows = self.query(HISTORY, Params::Empty).await?;
        Ok(rows.iter().map(|row| (column(row, 0), column(row, 1), column(row, 2))).collect())
    }
}
