//! What is listed of a Redis store: its spaces, leases and instances.

use deadpool::managed::Object;

use super::RedisStore;
use super::connection::Server;
use super::rows::{self, Fields, instance_from, lease_from, space_from};
use crate::store::{InstancePage, InstanceRecord, LeasePage, LeaseRecord, SpaceRecord, StoreError};

impl RedisStore {
    /// The names of all spaces, by their bytes. There may be some whose space was not made.
    pub(super) async fn space_names(
        &self,
        connection: &Object<Server>,
    ) -> Result<Vec<String>, StoreError> {
        let names = redis::cmd("SMEMBERS").arg(self.keys.spaces()).to_owned();
        let mut names: Vec<String> = connection.ask(&names).await?;
        names.sort_unstable();
        Ok(names)
    }

    pub(super) async fn all_spaces(
        &self,
        connection: &Object<Server>,
    ) -> Result<Vec<SpaceRecord>, StoreError> {
        let names = self.space_names(connection).await?;
        let mut pipe = redis::pipe();
        for name in &names {
            pipe.cmd("HGETALL").arg(self.keys.space(name));
        }
        let all: Vec<Fields> = connection.ask_all(&pipe).await?;
        let records = names.iter().zip(&all);
        records
            .filter_map(|(name, fields)| space_from(name, fields, connection.history()))
            .collect()
    }

    pub(super) async fn lease_at(
        &self,
        space: &str,
        ordinal: u64,
    ) -> Result<Option<LeaseRecord>, StoreError> {
        let connection = self.connection().await?;
        let mut script = self.scripts.lease_of.key(self.keys.space(space));
        script.arg(ordinal.to_string());
        let answer: Vec<String> = connection.run(&script).await?;
        lease_from(space, &rows::fields(&answer)).transpose()
    }

    pub(super) async fn lease_page(
        &self,
        page: &LeasePage,
    ) -> Result<Vec<LeaseRecord>, StoreError> {
        let connection = self.connection().await?;
        let names = match &page.space {
            Some(space) => vec![space.clone()],
            None => self.space_names(&connection).await?,
        };
        let after = page.after.clone().unwrap_or_default();
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let mut leases = Vec::new();
        for name in names.iter().filter(|name| **name >= after.0) {
            let from = if *name == after.0 { format!("({:020}", after.1) } else { "-".to_owned() };
            let mut list = redis::cmd("ZRANGEBYLEX");
            list.arg(self.keys.of_space(name, "leases")).arg(from).arg("+");
            list.arg("LIMIT").arg(0).arg(limit - leases.len());
            let numbers: Vec<String> = connection.ask(&list).await?;
            let mut pipe = redis::pipe();
            for number in &numbers {
                let number: u64 = rows::number(Some(number))?;
                pipe.cmd("HGETALL").arg(self.keys.of_space(name, &format!("lease:{number}")));
            }
            let found: Vec<Fields> = connection.ask_all(&pipe).await?;
            for fields in &found {
                leases.extend(lease_from(name, fields).transpose()?);
            }
            if leases.len() >= limit {
                break;
            }
        }
        Ok(leases)
    }

    pub(super) async fn instance_page(
        &self,
        page: &InstancePage,
    ) -> Result<Vec<InstanceRecord>, StoreError> {
        let connection = self.connection().await?;
        let mut from = "-".to_owned();
        if let Some(id) = &page.after {
            let started =
                redis::cmd("HGET").arg(self.keys.instance(id)).arg("started_at").to_owned();
            let started: Option<u64> = connection.ask(&started).await?;
            let Some(started) = started else { return Ok(Vec::new()) };
            from = format!("({started:020}:{id}");
        }
        let mut list = redis::cmd("ZRANGEBYLEX");
        list.arg(self.keys.instances()).arg(from).arg("+").arg("LIMIT").arg(0).arg(page.limit);
        let members: Vec<String> = connection.ask(&list).await?;
        let mut pipe = redis::pipe();
        for id in members.iter().filter_map(|member| member.split_once(':')) {
            pipe.cmd("HGETALL").arg(self.keys.instance(id.1));
        }
        let all: Vec<Fields> = connection.ask_all(&pipe).await?;
        all.iter().map(instance_from).collect()
    }
}
