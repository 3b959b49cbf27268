//! Instances on Redis: a heartbeat takes a few round trips however many spaces there are, and instances are
//! listed by age.

use std::time::Instant;

use async_trait::async_trait;
use deadpool::managed::Object;
use redis::ScriptInvocation;

use super::RedisStore;
use super::rows::{self, FieldMap, instance_from};
use super::server::Server;
use crate::instance::Instance;
use crate::store::{
    Beat, InstancePage, InstanceRecord, Instances, LeaseId, Mark, Pulse, StoreError,
};

#[async_trait]
impl Instances for RedisStore {
    /// Where an old connection shows less than the instance knows, a new one has the last word.
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let begun = Instant::now();
        loop {
            let connection = self.connection().await?;
            let made_at = connection.made_at();
            let beat = self.beat_over(&connection, pulse).await;
            drop(connection);
            let is_behind = beat.as_ref().is_ok_and(|beat| is_behind(beat, pulse));
            let counts = !is_behind && !self.is_doubtful(&beat, made_at);
            if counts || !self.connects_anew(made_at, begun) {
                return beat;
            }
        }
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        let connection = self.connection().await?;
        let mut from = "-".to_owned();
        if let Some(id) = &page.after {
            let started =
                redis::cmd("HGET").arg(self.paths.instance(id)).arg("started_at").to_owned();
            let started: Option<u64> = connection.ask(&started).await?;
            let Some(started) = started else { return Ok(Vec::new()) };
            from = format!("({started:020}:{id}");
        }
        let mut list = redis::cmd("ZRANGEBYLEX");
        list.arg(self.paths.instances()).arg(from).arg("+").arg("LIMIT").arg(0).arg(page.limit);
        let members: Vec<String> = connection.ask(&list).await?;
        let mut pipe = redis::pipe();
        for id in members.iter().filter_map(|member| member.split_once(':')) {
            pipe.cmd("HGETALL").arg(self.paths.instance(id.1));
        }
        let all: Vec<FieldMap> = connection.ask_all(&pipe).await?;
        all.iter().map(instance_from).collect()
    }
}

impl RedisStore {
    async fn beat_over(
        &self,
        connection: &Object<Server>,
        pulse: &Pulse,
    ) -> Result<Beat, StoreError> {
        let store = connection.witness().await?.identity;
        let marks = self.marks(connection).await?;
        let changed = self.records_of(connection, &pulse.outdated(&marks)).await?;
        let id = &pulse.instance.id;
        let lost = self.lost_leases(connection, id, &pulse.expected(&marks)).await?;
        // Replicas that have the sign of life, the last, have all that was read before it: no floor
        // rises by what a failover could lose.
        connection.run::<String>(&self.sign_of_life(pulse)).await?;
        connection.wait_for_replicas().await.map_err(StoreError::changing_nothing)?;
        Ok(Beat { store, marks, changed, lost })
    }

    fn sign_of_life(&self, pulse: &Pulse) -> ScriptInvocation<'_> {
        let Instance { id, host, pid, version, started_at } = &pulse.instance;
        let started_at = started_at.as_millisecond();
        let mut script = self.scripts.beat.key(self.paths.instance(id));
        script.key(self.paths.instances()).arg(format!("{started_at:020}:{id}"));
        script.arg(pulse.address.as_deref().unwrap_or_default()).arg(u8::from(pulse.stopping));
        script.arg("id").arg(id).arg("host").arg(host).arg("pid").arg(pid);
        script.arg("version").arg(version).arg("started_at").arg(started_at);
        script
    }

    /// How far all spaces have come, by name.
    async fn marks(&self, connection: &Object<Server>) -> Result<Vec<(String, Mark)>, StoreError> {
        let names = self.space_names(connection).await?;
        let mut pipe = redis::pipe();
        for name in &names {
            pipe.cmd("HMGET").arg(self.paths.space(name)).arg("revision").arg("next");
        }
        let found: Vec<Vec<Option<String>>> = connection.ask_all(&pipe).await?;
        let history = connection.history();
        let mut marks = Vec::with_capacity(names.len());
        for (name, found) in names.into_iter().zip(found) {
            // A name may have been noted and its space not made.
            let [Some(revision), Some(next)] = found.as_slice() else { continue };
            let (revision, next) = (rows::number(Some(revision))?, rows::number(Some(next))?);
            marks.push((name, Mark { revision, next, history, ..Mark::default() }));
        }
        Ok(marks)
    }

    /// The spaces whose lease is not on record as the instance's.
    async fn lost_leases(
        &self,
        connection: &Object<Server>,
        instance: &str,
        expected: &[(&str, LeaseId)],
    ) -> Result<Vec<String>, StoreError> {
        let mut pipe = redis::pipe();
        for (space, lease) in expected {
            let lease = self.paths.of_space(space, &format!("lease:{lease}"));
            pipe.cmd("HGET").arg(lease).arg("instance");
        }
        let holders: Vec<Option<String>> = connection.ask_all(&pipe).await?;
        let holders = expected.iter().zip(&holders);
        let lost = holders.filter(|(_, holder)| holder.as_deref() != Some(instance));
        Ok(lost.map(|((space, _), _)| (*space).to_owned()).collect())
    }
}

/// Whether the store shows less than an instance knows of it.
fn is_behind(beat: &Beat, pulse: &Pulse) -> bool {
    let is_below = |(space, known): &(String, u64)| {
        let found = beat.marks.binary_search_by(|(name, _)| name.as_str().cmp(space));
        found.ok().is_none_or(|at| beat.marks[at].1.revision < *known)
    };
    !beat.lost.is_empty() || pulse.serves.iter().any(is_below)
}
