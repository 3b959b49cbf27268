//! A keyspace that comes into Redis from another store: begun, filled with rows, and opened.
//!
//! Called by the store for `operations`. Each step is a script that looks first whether the space is
//! importing just this; rows are written only where there are none, so that an import which was
//! interrupted can begin again. Nothing here changes a keyspace that is not importing.
//!
//! Keys of a pool get new places, in the order in which they come: their ids may not fit a score.

use std::collections::BTreeMap;

use deadpool::managed::Object;
use jiff::Timestamp;
use redis::{Pipeline, ScriptInvocation};

use crate::instance::Instance;
use crate::space::Kind;
use crate::store::moves::holders;
use crate::store::redis::rows::{mark_from, reply};
use crate::store::redis::server::Server;
use crate::store::redis::windows::row as worker_row;
use crate::store::redis::{RedisStore, check_status, floor_in};
use crate::store::values::json;
use crate::store::{
    Created, ERA, FILL_MAX, Floor, KeyId, Mark, MovedLease, MovedRow, MovedSpace, SpaceRecord,
    StoreError,
};

/// The most rows of one script: others wait for as long as it runs.
const ROWS_MAX: usize = 250;
/// The most rows of one round trip, which has a time limit.
const ROUND_MAX: usize = 2_000;

impl RedisStore {
    pub(super) async fn begin_over(
        &self,
        connection: &Object<Server>,
        moved: &MovedSpace,
    ) -> Result<Created, StoreError> {
        let here = connection.witness().await?;
        self.keep_name(connection, &moved.name).await?;
        let mut script = self.import_space(connection, moved, None);
        script.arg("tuning").arg(json(&moved.tuning)).arg("store").arg(&here.identity);
        let (status, answer) = reply(connection.change(&script).await?)?;
        let record = self.record_from(connection, &moved.name, &answer)?;
        Ok(if status == "made" { Created::Made(record) } else { Created::Exists(record) })
    }

    pub(super) async fn import_over(
        &self,
        connection: &Object<Server>,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        let (history, mut floor) = (connection.history(), floor.clone());
        let record = self.record_of(connection, space).await?;
        record.check_importing(importing)?;
        let is_pooled = record.definition.kind == Kind::Pooled;
        let script = &self.scripts.import_rows;
        for round in rows.chunks(ROUND_MAX) {
            self.know_holders(connection, round).await?;
            let mut pipe = redis::pipe();
            for some in round.chunks(ROWS_MAX) {
                pipe.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(self.paths.space(space));
                pipe.arg(&floor_in(&floor, history)).arg(importing).arg(ERA.to_string());
                some.iter().for_each(|row| add_row(&mut pipe, row, is_pooled));
            }
            let mut reached = floor.mark;
            for answer in connection.change_all(script, &mut pipe).await? {
                let (status, answer) = self.judge(connection, space, &floor, answer?).await?;
                check_status(&status, space)?;
                reached = reached.max(mark_from(&answer, history)?);
            }
            floor.mark = reached;
        }
        Ok(floor.mark)
    }

    pub(super) async fn finish_over(
        &self,
        connection: &Object<Server>,
        moved: &MovedSpace,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let mut tuning = moved.tuning.clone();
        tuning.importing = None;
        let mut script = self.import_space(connection, moved, Some(floor));
        script.arg("tuning").arg(json(&tuning));
        let (status, answer) = self.change(connection, &moved.name, floor, &script).await?;
        check_status(&status, &moved.name)?;
        self.record_from(connection, &moved.name, &answer)
    }

    /// The script that begins an import, or ends it above a floor, with the fields that are the same for both.
    fn import_space(
        &self,
        connection: &Object<Server>,
        moved: &MovedSpace,
        floor: Option<&Floor>,
    ) -> ScriptInvocation<'_> {
        let returned = moved.returned.each().map(|it| format!("{}-{}", it.start, it.end));
        let returned: Vec<String> = returned.collect();
        let mut script = self.scripts.import_space.key(self.paths.space(&moved.name));
        let guard = floor.map(|floor| floor_in(floor, connection.history()));
        script.arg(&guard.unwrap_or_default());
        script.arg(moved.tuning.importing.as_deref().unwrap_or_default());
        script.arg(u8::from(floor.is_some())).arg(ERA.to_string());
        script.arg("definition").arg(json(&moved.definition));
        script.arg("capacity").arg(moved.capacity.to_string());
        script.arg("revision").arg(moved.revision.to_string());
        script.arg("next").arg(moved.next.to_string()).arg("base").arg(moved.base.to_string());
        script.arg("returned").arg(returned.join(","));
        script.arg("created_at").arg(moved.created_at.as_millisecond().to_string());
        if let Some(fingerprint) = &moved.fingerprint {
            script.arg("fingerprint").arg(fingerprint);
        }
        script
    }

    /// Makes the holders of leases known, which are not under the hash tag of the space.
    async fn know_holders(
        &self,
        connection: &Object<Server>,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        let holders = holders(rows);
        if holders.is_empty() {
            return Ok(());
        }
        let script = &self.scripts.import_holder;
        let mut pipe = redis::pipe();
        for (holder, seen_at) in holders.into_values() {
            let Instance { id, host, pid, version, started_at } = holder;
            let started_at = started_at.as_millisecond();
            pipe.cmd("EVALSHA").arg(script.get_hash()).arg(2);
            pipe.arg(self.paths.instance(id)).arg(self.paths.instances());
            pipe.arg(format!("{started_at:020}:{id}"));
            pipe.arg("id").arg(id).arg("host").arg(host).arg("pid").arg(*pid);
            pipe.arg("version").arg(version).arg("started_at").arg(started_at);
            pipe.arg("seen_at").arg(seen_at.as_millisecond());
        }
        for answer in connection.change_all(script, &mut pipe).await? {
            answer?;
        }
        Ok(())
    }
}

/// The era in which a pool's key was written.
pub(super) fn era_of(id: KeyId) -> u64 {
    u64::try_from(id).unwrap_or(0) / FILL_MAX / ERA
}

/// Adds a row to the arguments of `import_rows.lua`.
fn add_row(pipe: &mut Pipeline, row: &MovedRow, is_pooled: bool) {
    match row {
        MovedRow::Lease(moved) => {
            let MovedLease { lease, start, end, holder, .. } = moved;
            pipe.arg("lease").arg(lease.to_string());
            pipe.arg(start.to_string()).arg(end.to_string()).arg(moved.purpose.name());
            pipe.arg(&holder.id).arg(json(holder)).arg(millis(moved.granted_at));
            pipe.arg(moved.closed_at_ordinal.map_or_else(String::new, |it| it.to_string()));
            pipe.arg(moved.closed_at.map_or_else(String::new, millis));
        }
        MovedRow::Worker { worker, instance, lease, end } => {
            pipe.arg("worker").arg(worker.to_string());
            pipe.arg(worker_row(*lease, *end, instance));
        }
        MovedRow::Name { key, ordinal, purpose, owner, created_at, removed_at } => {
            let mut name = BTreeMap::from([
                ("purpose", purpose.name().to_owned()),
                ("owner", owner.clone()),
                ("created_at", millis(*created_at)),
            ]);
            name.extend(ordinal.map(|ordinal| ("ordinal", ordinal.to_string())));
            name.extend(removed_at.map(|at| ("removed_at", millis(at))));
            pipe.arg("name").arg(key).arg(json(&name));
        }
        MovedRow::InUse { ordinal, imported_at } => {
            pipe.arg("in_use").arg(ordinal.to_string()).arg(millis(*imported_at));
        }
        // A key of a pool is found by itself.
        MovedRow::PoolName { .. } => {}
        MovedRow::Available { id, key } => {
            pipe.arg("available").arg(era_of(*id).to_string()).arg(key);
        }
        MovedRow::Used { id, key, used_at, caller, instance, expires_at, retired_at } => {
            let id = if is_pooled { String::new() } else { id.to_string() };
            pipe.arg("used").arg(key).arg(id).arg(millis(*used_at)).arg(caller).arg(instance);
            pipe.arg(expires_at.map_or_else(String::new, millis));
            pipe.arg(retired_at.map_or_else(String::new, millis));
        }
        MovedRow::Digest { input, key, .. } => {
            pipe.arg("digest").arg(input).arg(key);
        }
    }
}

fn millis(time: Timestamp) -> String {
    time.as_millisecond().to_string()
}
