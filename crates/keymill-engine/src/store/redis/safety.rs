//! Whether a Redis server is safe to lease from, setting by setting.

use redis::{ErrorKind, ServerErrorKind};

use super::connection::Connection;
use crate::store::{Finding, StoreError};

impl Connection {
    pub(super) async fn findings(&self) -> Result<Vec<Finding>, StoreError> {
        let mut info = redis::cmd("INFO");
        let info: String = self.ask(info.arg("everything")).await?;
        let info = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or("unknown").to_owned()
        };
        // While it loads, it says of itself what is not so.
        if info("loading") == "1" || info("async_loading") == "1" {
            let server_name = self.server_name();
            return Err(StoreError::Unavailable(format!(
                "{server_name} is still loading its data"
            )));
        }
        let fsync = self.setting("appendfsync").await?;
        let on_rewrite = self.setting("no-appendfsync-on-rewrite").await?;
        let policy = self.setting("maxmemory-policy").await?;
        let (role, aof) = (info("role"), info("aof_enabled"));
        let aof = if aof == "1" { "yes".to_owned() } else { format!("no ({aof})") };
        let replicas = format!("{} replicas", info("connected_slaves"));
        Ok(vec![
            Finding::new("server", &info("redis_version"), "5 or later", true),
            Finding::new("run_id", &info("run_id"), "any", true),
            Finding::new("replication ID", &info("master_replid"), "any", true),
            Finding::new("role", &role, "master", role == "master"),
            Finding::new("appendonly", &aof, "yes", aof == "yes"),
            Finding::new("appendfsync", &fsync, "always", fsync == "always"),
            Finding::new("no-appendfsync-on-rewrite", &on_rewrite, "no", on_rewrite == "no"),
            Finding::new("maxmemory-policy", &policy, "noeviction", policy == "noeviction"),
            Finding::new(
                "promise",
                &format!("best effort, {replicas}"),
                "a store whose failover loses nothing: PostgreSQL, etcd",
                false,
            )
            .warning(),
        ])
    }

    /// A setting of the server. One that it will not tell is unknown, which is not safe.
    async fn setting(&self, name: &str) -> Result<String, StoreError> {
        let mut get = redis::cmd("CONFIG");
        get.arg("GET").arg(name);
        let hidden = |error: &redis::RedisError| {
            matches!(
                error.kind(),
                ErrorKind::Server(ServerErrorKind::NoPerm) | ErrorKind::Extension
            ) || error.code() == Some("ERR")
        };
        match self.try_ask::<Vec<String>>(&get).await {
            Err(error) if hidden(&error) => Ok(format!("unknown ({error})")),
            answer => {
                let pair = self.answered(answer).map_err(StoreError::changing_nothing)?;
                Ok(pair.get(1).cloned().unwrap_or_else(|| "unknown".to_owned()))
            }
        }
    }
}
