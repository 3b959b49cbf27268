//! The Redis server of a URL: how it is connected to, and when a connection may be used again.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use redis::{
    AsyncConnectionConfig, Client, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates,
};

use super::connection::Connection;
use super::fold_error;
use super::met::Met;
use crate::store::connections::{CALL_MAX, CHECK_EVERY, CONNECT_MAX, in_time};
use crate::store::url::{StoreUrl, Tls};
use crate::store::{Opening, StoreError, values};

const PORT: u16 = 6379;
/// A connection that has been idle for longer is tried before it is used.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// The server of a URL.
pub(super) struct Server {
    url: StoreUrl,
    client: Client,
    prefix: String,
    /// How many replicas must confirm a change; where it is not set, one, once there was one.
    replicas: Option<u32>,
    allow_unsafe: bool,
    met: Arc<Met>,
}

impl Server {
    pub(super) fn parse(url: &str, opening: Opening) -> Result<Server, StoreError> {
        let url = StoreUrl::parse(url, &["prefix", "replicas"])?;
        let refuse = |problem: String| {
            Err(StoreError::Broken(format!("the store's URL {problem}: redis://host:6379/0")))
        };
        let [host] = url.hosts.as_slice() else {
            return refuse("must name one Redis server".to_owned());
        };
        let Ok(database) = (if url.path.is_empty() { "0" } else { &url.path }).parse::<i64>()
        else {
            return refuse(format!("has `{}` in place of the number of a database", url.path));
        };
        let replicas = url.setting("replicas").map(str::parse).transpose();
        let Ok(replicas) = replicas else {
            return refuse("has replicas that are not a number".to_owned());
        };
        let prefix = url.setting("prefix").unwrap_or("keymill").to_owned();
        if prefix.is_empty() || prefix.contains(['{', '}']) {
            return refuse("has a prefix that is empty or has braces".to_owned());
        }
        let tls = match url.tls()? {
            None if url.scheme == "rediss" => Some(Tls::default()),
            tls => tls,
        };
        let mut settings = RedisConnectionInfo::default().set_db(database);
        if let Some(user) = &url.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &url.password {
            settings = settings.set_password(password);
        }
        let scheme = if tls.is_some() { "rediss" } else { "redis" };
        let address = format!("{scheme}://{}:{}", bracketed(&host.name), host.port_or(PORT));
        let client = client(&address, settings, tls);
        let allow_unsafe = opening.allow_unsafe;
        Ok(Server { client: client?, url, prefix, replicas, allow_unsafe, met: Arc::default() })
    }

    pub(super) fn shown(&self) -> String {
        self.url.shown()
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Has no connection used again that was made before this time.
    pub(super) fn give_up(&self, before: Instant) {
        self.met.give_up(before);
    }

    /// Whether a connection that was made at this time is not to be used again.
    pub(super) fn has_given_up(&self, made_at: Instant) -> bool {
        self.met.has_given_up(made_at)
    }

    /// Gives the server its stamp, where it has none and `opening` allows it; whether it did.
    pub(super) async fn prepare(&self, opening: Opening) -> Result<bool, StoreError> {
        let connection = self.connect().await?;
        let stamp = if opening.create && opening.migrate { values::stamp() } else { String::new() };
        let witness = connection.witness_or(&stamp).await?;
        if witness.identity.is_empty() && !opening.create {
            return Err(StoreError::empty(&self.shown(), opening));
        }
        Ok(witness.made)
    }

    async fn connect(&self) -> Result<Connection, StoreError> {
        let server_name = format!("redis at {}", self.url.hosts[0]);
        in_time(&server_name, self.connect_to(&server_name)).await
    }

    async fn connect_to(&self, server_name: &str) -> Result<Connection, StoreError> {
        let made_at = Instant::now();
        let limits = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_MAX))
            .set_response_timeout(Some(CALL_MAX));
        let link = self.client.get_multiplexed_async_connection_with_config(&limits).await;
        let link = link.map_err(|error| fold_error(server_name, &error).changing_nothing())?;
        let store_key = format!("{}:store", self.prefix);
        let met = self.met.clone();
        let mut connection =
            Connection::new(link, server_name, store_key, self.replicas, met, made_at);
        connection.check(self.allow_unsafe).await?;
        Ok(connection)
    }
}

impl Manager for Server {
    type Type = Connection;
    type Error = StoreError;

    async fn create(&self) -> Result<Connection, StoreError> {
        self.connect().await
    }

    async fn recycle(
        &self,
        connection: &mut Connection,
        metrics: &Metrics,
    ) -> RecycleResult<StoreError> {
        if connection.has_failed() || self.has_given_up(connection.made_at()) {
            return Err(RecycleError::message("failed"));
        }
        if metrics.last_used() > IDLE_MAX {
            connection.ask::<String>(&redis::cmd("PING")).await?;
        }
        if connection.checked_at().elapsed() > CHECK_EVERY {
            connection.check(self.allow_unsafe).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

fn client(
    address: &str,
    settings: RedisConnectionInfo,
    tls: Option<Tls>,
) -> Result<Client, StoreError> {
    let broken = |problem: String| StoreError::Broken(format!("the store's URL: {problem}"));
    let info = address.into_connection_info().map_err(|error| broken(error.to_string()))?;
    let info = info.set_redis_settings(settings);
    let client = match tls {
        None => Client::open(info),
        Some(Tls { ca }) => {
            let root_cert = ca.map(std::fs::read).transpose();
            let root_cert = root_cert.map_err(|error| broken(format!("tls_ca: {error}")))?;
            Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
        }
    };
    client.map_err(|error| broken(error.to_string()))
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}
