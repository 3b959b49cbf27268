//! How a PostgreSQL server is connected to.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::{Connection, drive};
use super::fold_error;
use crate::store::sql::driver::Result;
use crate::store::sql::hosts::{Hosts, Route, Server};
use crate::store::url::{Host, StoreUrl, Tls, is_plain_name};
use crate::store::{Opening, StoreError, tls};

const PORT: u16 = 5432;
const SESSION_ATTRS: &str = "target_session_attrs";

/// PostgreSQL.
pub(super) struct PostgresServer {
    pub(super) schema: String,
    tls: Option<MakeRustlsConnect>,
    /// The highest timeline that was met anywhere: a host below it was cut off, and is not used.
    timeline: Arc<AtomicU64>,
}

/// The servers of a URL.
pub(super) fn hosts(url: &str, opening: Opening) -> Result<Hosts<PostgresServer>> {
    let url = StoreUrl::parse(url, &["schema", "sslmode", "sslrootcert", SESSION_ATTRS])?;
    if let Some(wanted) = url.setting(SESSION_ATTRS).filter(|wanted| *wanted != "read-write") {
        return Err(StoreError::Broken(format!(
            "the store's URL has {SESSION_ATTRS}={wanted}; keymill needs read-write, its default"
        )));
    }
    let schema = url.setting("schema").unwrap_or("keymill").to_owned();
    if !is_plain_name(&schema) {
        return Err(StoreError::Broken(format!(
            "the store's URL has schema={schema}; letters, digits, _ and - are allowed"
        )));
    }
    let tls = wanted_tls(&url)?.map(|wanted| tls::client(&wanted)).transpose()?;
    let tls = tls.map(MakeRustlsConnect::new);
    Ok(Hosts::new(url, PostgresServer { schema, tls, timeline: Arc::default() }, opening))
}

impl Server for PostgresServer {
    const NAME: &'static str = "postgres";

    type Link = Connection;

    async fn connect(&self, url: &StoreUrl, host: &Host, route: Route) -> Result<Connection> {
        let mut config = Config::new();
        config
            .host(&host.name)
            .port(host.port_or(PORT))
            .application_name("keymill")
            .user(url.user.as_deref().unwrap_or("postgres"))
            .dbname(if url.path.is_empty() { "postgres" } else { &url.path });
        if let Some(password) = &url.password {
            config.password(password);
        }
        let warnings = Arc::<AtomicU64>::default();
        let fold = |error: tokio_postgres::Error| fold_error(&route.server_name, &error);
        let client = if let Some(tls) = &self.tls {
            config.ssl_mode(SslMode::Require);
            drive(config.connect(tls.clone()).await.map_err(fold)?, warnings.clone())
        } else {
            config.ssl_mode(SslMode::Disable);
            drive(config.connect(NoTls).await.map_err(fold)?, warnings.clone())
        };
        let (schema, timeline) = (self.schema.clone(), self.timeline.clone());
        Ok(Connection { client, route, schema, timeline, warnings })
    }
}

/// `tls` and `tls_ca`, or what PostgreSQL's own programs call them.
fn wanted_tls(url: &StoreUrl) -> Result<Option<Tls>> {
    let ca = url.setting("sslrootcert").map(Into::into);
    match url.setting("sslmode") {
        None if ca.is_some() => Ok(Some(Tls { ca })),
        None | Some("disable") => url.tls(),
        Some("require" | "verify-full") => Ok(Some(Tls { ca })),
        Some(other) => Err(StoreError::Broken(format!(
            "the store's URL has sslmode={other}; it is disable, or verify-full (encrypted, and the \
             server verified by sslrootcert or the system's authorities)"
        ))),
    }
}
