//! PostgreSQL: the store for many instances that most already have.
//!
//! A lease is one transaction on the space's row, committed with `synchronous_commit = on` or
//! more; never a sequence, which a crash may set back. Several hosts may be named: the one that
//! takes writes is found, and found again after a failover.
//!
//! # Invariants
//!
//! - Every transaction learns the system identifier and the timeline of the server it runs on,
//!   and they are part of the floor: a primary that was cut off and comes back is refused.
//! - A warning at commit is a doubt: the server says so when it gave up waiting for its
//!   synchronous standby.

mod connection;
mod findings;
mod keys;
mod names;
mod rows;
mod schema;
mod tx;
mod windows;

use std::ops::Range;

use async_trait::async_trait;
use deadpool::managed::{Object, Pool};
use tokio_postgres::error::SqlState;

use connection::Hosts;
use rows::{instance_from, lease_from, name_from, space_from};
use tx::Tx;

use super::values::{json, signed, time, unsigned};
use super::{
    Beat, Created, Finding, GiveBack, Grant, InstancePage, InstanceRecord, KeyStore, LeaseAsk,
    LeasePage, LeaseRecord, NameBatch, NameRecord, Named, NewName, NewSpace, Opening, Place, Pulse,
    Purpose, SpaceRecord, Store, StoreError, Window, WindowAsk, WindowRelease, pool,
};
use crate::floor::{Floor, Mark};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};

const STORE: &str = "SELECT identity, (SELECT system_identifier FROM pg_control_system()),
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) FROM store";
const SPACE: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces WHERE name = $1";
const SPACE_LOCK: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces WHERE name = $1 FOR UPDATE";
const SPACES: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces ORDER BY name";
const SPACE_MAKE: &str = "INSERT INTO spaces
    (name, definition, tuning, fingerprint, capacity, next, revision, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    ON CONFLICT DO NOTHING";
const SPACE_MOVE: &str =
    "UPDATE spaces SET next = $2, revision = $3, returned = $4, base = $5 WHERE name = $1";
const SPACE_TUNE: &str = "UPDATE spaces SET tuning = $2, revision = revision + 1 WHERE name = $1";
const SPACE_DEFINE: &str = "UPDATE spaces SET definition = $2, capacity = $3 WHERE name = $1";
const SPACE_SEAL: &str =
    "UPDATE spaces SET sealed = true, revision = revision + 1 WHERE name = $1 AND NOT sealed";
const LEASE_ADD: &str = "INSERT INTO leases
    (space, lease, start_ordinal, end_ordinal, purpose, instance, granted_at)
    VALUES ($1, $2, $3, $4, $5, $6, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)";
const LEASE_CLOSE: &str = "UPDATE leases SET closed_at_ordinal = coalesce($4, end_ordinal),
    closed_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    WHERE space = $1 AND lease = $2 AND instance = $3 AND closed_at IS NULL
    AND coalesce($5, end_ordinal) = end_ordinal";
const LEASE_EXISTS: &str =
    "SELECT EXISTS (SELECT 1 FROM leases WHERE space = $1 AND lease = $2 AND instance = $3)";
const LEASE_OF: &str =
    "SELECT space, lease, start_ordinal, end_ordinal, closed_at_ordinal, purpose,
    granted_at, closed_at, id, host, pid, version, started_at
    FROM leases JOIN instances ON id = instance WHERE space = $1 AND start_ordinal <= $2
    AND coalesce(closed_at_ordinal, end_ordinal) > $2 ORDER BY start_ordinal DESC LIMIT 1";
const LEASE_PAGE: &str = "SELECT space, lease, start_ordinal, end_ordinal, closed_at_ordinal,
    purpose, granted_at, closed_at, id, host, pid, version, started_at
    FROM leases JOIN instances ON id = instance
    WHERE ($1::text IS NULL OR space = $1) AND (space, lease) > ($2, $3)
    ORDER BY space, lease LIMIT $4";
const HELD_ELSEWHERE: &str = "SELECT coalesce(sum(end_ordinal - start_ordinal), 0)::bigint
    FROM leases WHERE space = $1 AND instance <> $2 AND closed_at IS NULL AND purpose = 'lease'";
// One by one, because without statistics the server would read all of a space to find many.
const NAMES: &str = "SELECT found.* FROM unnest($2::text[]) AS wanted (key) CROSS JOIN LATERAL (
    SELECT space, names.key, ordinal, purpose, owner, created_at, removed_at
    FROM names WHERE space = $1 AND names.key = wanted.key LIMIT 1) AS found";
const NAMES_PUT: &str = "INSERT INTO names (space, key, ordinal, purpose, owner, created_at)
    SELECT $1, key, ordinal, $4, $5, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM unnest($2::text[], $3::bigint[]) AS new (key, ordinal)
    ON CONFLICT (space, key) DO UPDATE SET purpose = excluded.purpose, owner = excluded.owner,
    created_at = excluded.created_at, removed_at = NULL";
const NAME_REMOVE: &str = "UPDATE names
    SET removed_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    WHERE space = $1 AND key = $2";
const IMPORTED: &str = "SELECT found.* FROM unnest($2::bigint[]) AS wanted (ordinal)
    CROSS JOIN LATERAL (SELECT imported.ordinal, imported_at
    FROM imported WHERE space = $1 AND imported.ordinal = wanted.ordinal LIMIT 1) AS found";
const IMPORTED_ADD: &str = "INSERT INTO imported (space, ordinal, imported_at)
    SELECT $1, ordinal, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM unnest($2::bigint[]) AS new (ordinal)";
const SKIPS: &str = "SELECT ordinal FROM names
    WHERE space = $1 AND ordinal >= $2 AND ordinal < $3
    UNION SELECT ordinal FROM imported
    WHERE space = $1 AND ordinal >= $2 AND ordinal < $3 ORDER BY ordinal";
const UNPLACED: &str = "SELECT key FROM names
    WHERE space = $1 AND ordinal IS NULL AND key > $2 ORDER BY key LIMIT $3";
const INSTANCE_KNOW: &str = "INSERT INTO instances
    (id, host, pid, version, started_at, seen_at)
    VALUES ($1, $2, $3, $4, $5, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    ON CONFLICT DO NOTHING";
const INSTANCE_SEEN: &str = "UPDATE instances SET address = coalesce($2, address),
    seen_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    stopped_at = CASE WHEN $3 THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint END
    WHERE id = $1";
const INSTANCE_PAGE: &str =
    "SELECT id, host, pid, version, started_at, address, seen_at, stopped_at
    FROM instances WHERE $1::text IS NULL
    OR (started_at, id) > (SELECT started_at, id FROM instances WHERE id = $1)
    ORDER BY started_at, id LIMIT $2";
const SECRET: &str = "SELECT secret FROM secret";
const SECRET_MAKE: &str = "INSERT INTO secret
    VALUES (1, $1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) ON CONFLICT DO NOTHING";
const SECRET_FORGET: &str = "DELETE FROM secret";

/// A PostgreSQL database as a store.
#[derive(Debug)]
pub struct PostgresStore {
    pool: Pool<Hosts>,
    created: bool,
}

impl PostgresStore {
    /// Connects to the server that takes writes, making keymill's schema where there is none if
    /// `create`, and brings it up to date.
    pub async fn open(url: &str, opening: Opening) -> Result<PostgresStore, StoreError> {
        let pool = pool::new(Hosts::parse(url, opening)?);
        let created = pool.manager().prepare(opening).await?;
        Ok(PostgresStore { pool, created })
    }

    async fn connection(&self) -> Result<Object<Hosts>, StoreError> {
        pool::get(&self.pool).await
    }

    async fn begin(&self) -> Result<Tx, StoreError> {
        Tx::begin(self.connection().await?).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn identity(&self) -> Result<String, StoreError> {
        let rows = self.connection().await?.query(STORE, &[]).await?;
        Ok(rows[0].get(0))
    }

    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.create(new, floor).await;
        tx.finish(answer).await
    }

    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let tx = self.begin().await?;
        let answer = async {
            tx.space_above(space, floor).await?;
            tx.execute(SPACE_TUNE, &[&space, &json(tuning)]).await?;
            tx.space(space).await
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.grow(space, definition, capacity, floor).await;
        tx.finish(answer).await
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        let connection = self.connection().await?;
        let history = connection.history().await?;
        let rows = connection.query(SPACE, &[&space]).await?;
        let row = rows.first().ok_or_else(|| StoreError::UnknownSpace(space.to_owned()))?;
        space_from(row, history)
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        let connection = self.connection().await?;
        let history = connection.history().await?;
        let rows = connection.query(SPACES, &[]).await?;
        rows.iter().map(|row| space_from(row, history)).collect()
    }

    async fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let tx = self.begin().await?;
        let answer = match tx.lease(ask).await {
            // These answers commit too: they may have closed the leases that were spent.
            Err(end @ (StoreError::Exhausted { .. } | StoreError::Sealed(_))) => Ok(Err(end)),
            answer => answer.map(Ok),
        };
        tx.finish(answer).await?
    }

    async fn give_back(&self, back: &GiveBack) -> Result<Mark, StoreError> {
        let tx = self.begin().await?;
        let answer = async {
            let mut space = tx.space_above(&back.space, &back.floor).await?;
            let (start, end) = (Some(signed(back.rest.start)), Some(signed(back.rest.end)));
            if tx.close(&back.space, back.lease, &back.instance, start, end).await? {
                space.take_back(back.rest.clone());
                tx.move_to(&space).await?;
            }
            Ok(space.mark)
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

    async fn window(&self, ask: &WindowAsk) -> Result<Window, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.window(ask).await;
        tx.finish(answer).await
    }

    async fn clock_ms(&self, _own_ms: i64) -> Result<i64, StoreError> {
        let rows = self.connection().await?.query(windows::CLOCK, &[]).await?;
        Ok(rows[0].get(0))
    }

    async fn release_window(&self, release: &WindowRelease) -> Result<Mark, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.release_window(release).await;
        tx.finish(answer).await
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        let tx = self.begin().await?;
        let answer = async {
            let mut space = tx.space(space).await?;
            let passed = space.advance(to)?;
            tx.know(by).await?;
            if !passed.is_empty() {
                tx.record_lease(&space, passed, Purpose::Advance, &by.id).await?;
            }
            tx.define(&space).await?;
            tx.move_to(&space).await?;
            tx.drop_pool(&space.name).await?;
            Ok(space)
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let tx = self.begin().await?;
        let answer = async {
            tx.space_above(space, floor).await?;
            tx.execute(SPACE_SEAL, &[&space]).await?;
            tx.space(space).await
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

    async fn add_names(&self, batch: &NameBatch) -> Result<Named, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.add_names(batch).await;
        tx.finish(answer).await
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<Option<NameRecord>, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.remove_name(space, key, owner, floor).await;
        tx.finish(answer).await
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        let connection = self.connection().await?;
        let rows = connection.query(NAMES, &[&space, &vec![&name.key]]).await?;
        if let (None, Some(ordinal)) = (rows.first(), name.ordinal) {
            let rows = connection.query(IMPORTED, &[&space, &vec![signed(ordinal)]]).await?;
            return Ok(rows.first().map(|row| name.imported(space, time(row.get(1)))));
        }
        Ok(rows.first().map(name_from))
    }

    async fn skips(&self, space: &str, ordinals: Range<u64>) -> Result<Vec<u64>, StoreError> {
        let (start, end) = (signed(ordinals.start), signed(ordinals.end));
        let rows = self.connection().await?.query(SKIPS, &[&space, &start, &end]).await?;
        Ok(rows.iter().map(|row| unsigned(row.get(0))).collect())
    }

    async fn unplaced(
        &self,
        space: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let (after, limit) = (after.unwrap_or_default(), i64::from(limit));
        let rows = self.connection().await?.query(UNPLACED, &[&space, &after, &limit]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        let rows = self.connection().await?.query(LEASE_OF, &[&space, &signed(ordinal)]).await?;
        Ok(rows.first().map(lease_from))
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        let (space, lease) = page.after.clone().unwrap_or_default();
        let limit = i64::from(page.limit);
        let connection = self.connection().await?;
        let rows =
            connection.query(LEASE_PAGE, &[&page.space, &space, &signed(lease), &limit]).await?;
        Ok(rows.iter().map(lease_from).collect())
    }

    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let tx = self.begin().await?;
        let answer = async {
            let id = &pulse.instance.id;
            tx.know(&pulse.instance).await?;
            tx.execute(INSTANCE_SEEN, &[id, &pulse.address, &pulse.stopping]).await?;
            let spaces = tx.spaces().await?;
            let mut lost = Vec::new();
            for (space, lease) in pulse.expected(&spaces) {
                if !tx.has_lease(space, lease, id).await? {
                    lost.push(space.to_owned());
                }
            }
            Ok(Beat { store: tx.identity().to_owned(), spaces, lost })
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        let connection = self.connection().await?;
        let limit = i64::from(page.limit);
        let rows = connection.query(INSTANCE_PAGE, &[&page.after, &limit]).await?;
        let record = |row: &tokio_postgres::Row| InstanceRecord {
            instance: instance_from(row, 0),
            address: row.get(5),
            seen_at: time(row.get(6)),
            stopped_at: row.get::<_, Option<i64>>(7).map(time),
        };
        Ok(rows.iter().map(record).collect())
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        let tx = self.begin().await?;
        let answer = async {
            if let Some(candidate) = candidate {
                tx.execute(SECRET_MAKE, &[&candidate]).await?;
            }
            let rows = tx.query(SECRET, &[]).await?;
            Ok(rows.first().map(|row| row.get(0)))
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        let tx = self.begin().await?;
        let answer = tx.execute(SECRET_FORGET, &[]).await.map(drop);
        tx.finish(answer).await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.connection().await?.findings().await
    }

    async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        self.pool.manager().migrate().await
    }

    fn keys(&self) -> Option<&dyn KeyStore> {
        Some(self)
    }

    fn place(&self) -> Place {
        let location = self.pool.manager().shown();
        Place { kind: "postgres", location, created: self.created }
    }
}

/// The one place where PostgreSQL's errors become the store's.
fn fold_error(place: &str, error: &tokio_postgres::Error) -> StoreError {
    let Some(refusal) = error.as_db_error() else {
        // The driver's own words hide the cause: "error communicating with the server".
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        return StoreError::Unavailable(format!("{place}: {error}{}", cause.unwrap_or_default()));
    };
    let message = refusal.message();
    match refusal.code() {
        &SqlState::UNDEFINED_TABLE
        | &SqlState::UNDEFINED_COLUMN
        | &SqlState::INVALID_SCHEMA_NAME => StoreError::Broken(format!(
            "{place} lacks keymill's tables ({message}); run `keymill store migrate`"
        )),
        &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Broken(format!(
            "{place}: {message}; let this user do that, or run `keymill store migrate` as one who may"
        )),
        &SqlState::INVALID_CATALOG_NAME => {
            StoreError::Broken(format!("{place}: {message}; make it with CREATE DATABASE"))
        }
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            StoreError::Broken(format!("{place}: {message}"))
        }
        _ => StoreError::Unavailable(format!("{place}: {message}")),
    }
}
