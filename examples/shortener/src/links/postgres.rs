//! Links in PostgreSQL: a few connections, replaced when the server was restarted.

use std::sync::Arc;
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult};
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Error, Link, SCHEMA, Value};

const CONNECTIONS_MAX: usize = 16;
/// How long a connection may take to open, and a statement to be answered.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Two shorteners that start at once would make the same table.
const LOCK: &str = "SELECT pg_advisory_xact_lock(2026111801);";

pub(super) struct Postgres(Pool<Server>);

/// How a connection is made.
struct Server {
    config: Config,
    tls: MakeRustlsConnect,
}

impl Postgres {
    /// The server at a URL. `sslmode=require` encrypts connections, and verifies the server.
    pub(super) fn new(url: &str) -> Result<Postgres, Error> {
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let wanted = "name it as sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE";
            Error::lasting(format!("{}; {wanted}", with_cause(&error)))
        })?;
        if config.get_ssl_mode() == SslMode::Prefer {
            // Without verification, encryption protects from no one who can answer in the server's name.
            config.ssl_mode(SslMode::Disable);
        }
        config.application_name("shortener").connect_timeout(CONNECT_TIME_MAX);
        // The system would try for a quarter of an hour to reach a server that is gone.
        config.tcp_user_timeout(ANSWER_TIME_MAX);
        let pool = Pool::builder(Server { config, tls: tls() })
            .max_size(CONNECTIONS_MAX)
            .wait_timeout(Some(ANSWER_TIME_MAX))
            .create_timeout(Some(CONNECT_TIME_MAX))
            .runtime(Runtime::Tokio1)
            .build();
        pool.map(Postgres).map_err(Error::lasting)
    }

    pub(super) async fn create_table(&self) -> Result<(), Error> {
        // One message, and so one transaction.
        let statements = format!("{LOCK}{SCHEMA}");
        self.ask(async |client| client.batch_execute(&statements).await).await
    }

    pub(super) async fn rows(&self, statement: &str, values: &[Value]) -> Result<Vec<Link>, Error> {
        let values: Vec<(&(dyn ToSql + Sync), Type)> = values.iter().map(typed).collect();
        let rows = self.ask(async |client| client.query_typed(statement, &values).await).await?;
        rows.iter().map(link).collect()
    }

    async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        let connection = self.0.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error,
            error => Error::temporary(error),
        })?;
        match timeout(ANSWER_TIME_MAX, question(&connection)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                // A network that swallows everything leaves connections open on this side: those that are idle, too.
                drop(Object::take(connection));
                self.0.retain(|_, _| false);
                Err(Error::temporary(format!("no answer within {ANSWER_TIME_MAX:?}")))
            }
        }
    }
}

impl Manager for Server {
    type Type = Client;
    type Error = Error;

    async fn create(&self) -> Result<Client, Error> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        // Its failures are told to those who wait for answers.
        tokio::spawn(connection);
        Ok(client)
    }

    async fn recycle(&self, client: &mut Client, _: &Metrics) -> RecycleResult<Error> {
        match client.is_closed() {
            true => Err(RecycleError::message("the server closed it")),
            false => Ok(()),
        }
    }
}

/// The authorities that the system trusts.
fn tls() -> MakeRustlsConnect {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default protocol versions");
    MakeRustlsConnect::new(config.with_root_certificates(roots).with_no_client_auth())
}

fn typed(value: &Value) -> (&(dyn ToSql + Sync), Type) {
    match value {
        Value::Text(text) => (text, Type::TEXT),
        Value::Number(number) => (number, Type::INT8),
        Value::Bool(is_so) => (is_so, Type::BOOL),
    }
}

fn link(row: &Row) -> Result<Link, Error> {
    Ok(Link {
        key: row.try_get("key")?,
        owner: row.try_get("owner")?,
        url: row.try_get("url")?,
        is_alias: row.try_get("is_alias")?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        ended_at: row.try_get("ended_at")?,
    })
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Error {
        let reason = with_cause(&error);
        match error.code().map(|code| &code.code()[..2]) {
            // Connection lost, conflict, out of resources, shut down or starting up.
            Some("08" | "40" | "53" | "57") => Error::temporary(reason),
            Some(_) => Error::lasting(reason),
            // The server did not answer.
            None => Error::temporary(reason),
        }
    }
}

/// The driver's own words hide the cause: "error communicating with the server".
fn with_cause(error: &tokio_postgres::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}
