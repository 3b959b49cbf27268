//! Links, in SQLite or PostgreSQL: the same statements on both; the files beside this one only send them.
//!
//! # Invariants
//!
//! - A key has one row for good. A link that has ended keeps its row, so its key is never used again.
//! - A user has one generated link for a URL, which a unique index sees to, however many requests arrive at once.
//! - Every statement is safe to repeat: after a lost connection nobody knows whether the last one was carried out.

mod postgres;
mod sqlite;

use std::fmt;
use std::time::Duration;

use keymill_client::Timestamp;
use tokio::time::timeout;

use crate::patience::retry;
use postgres::Postgres;
use sqlite::Sqlite;

/// How many links of a user are listed, the newest first.
const LISTED_MAX: i64 = 100;
/// How long to wait for the answer to whether the database answers.
const CHECK_TIME_MAX: Duration = Duration::from_secs(2);
/// The longest key, generated or chosen.
const KEY_LEN_MAX: usize = 64;
/// How often an expired link that stands in the way of a new one is ended, before giving up.
const ADD_TURNS: usize = 3;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS links (
        key        TEXT PRIMARY KEY,
        owner      TEXT NOT NULL,
        url        TEXT NOT NULL,
        is_alias   BOOLEAN NOT NULL,
        created_at BIGINT NOT NULL,
        expires_at BIGINT,
        ended_at   BIGINT
    );
    CREATE UNIQUE INDEX IF NOT EXISTS links_once ON links (owner, url) WHERE NOT is_alias AND ended_at IS NULL;
    CREATE INDEX IF NOT EXISTS links_of_owner ON links (owner, created_at);";

/// Parameters stand in the order of their numbers, because SQLite goes by the order. Each returns whole rows.
const ADD_GENERATED: &str = "
    INSERT INTO links (key, owner, url, is_alias, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (owner, url) WHERE NOT is_alias AND ended_at IS NULL
    DO UPDATE SET expires_at = excluded.expires_at
        WHERE links.expires_at IS NULL OR links.expires_at > excluded.created_at
    RETURNING *";
const ADD_ALIAS: &str = "
    INSERT INTO links (key, owner, url, is_alias, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at
        WHERE links.owner = excluded.owner AND links.url = excluded.url AND links.ended_at IS NULL
          AND (links.expires_at IS NULL OR links.expires_at > excluded.created_at)
    RETURNING *";
const END_EXPIRED: &str = "
    UPDATE links SET ended_at = expires_at
    WHERE owner = $1 AND url = $2 AND NOT is_alias AND ended_at IS NULL AND expires_at <= $3 RETURNING *";
const END: &str =
    "UPDATE links SET ended_at = coalesce(ended_at, $1) WHERE key = $2 AND owner = $3 RETURNING *";
const FIND: &str = "SELECT * FROM links WHERE key = $1";
const LIST: &str = "
    SELECT * FROM links WHERE owner = $1 AND ended_at IS NULL ORDER BY created_at DESC, key LIMIT $2";

/// A short link. Times are in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) key: String,
    /// The user who made it.
    pub(crate) owner: String,
    pub(crate) url: String,
    /// Whether its key was chosen by its owner.
    pub(crate) is_alias: bool,
    pub(crate) created_at: i64,
    pub(crate) expires_at: Option<i64>,
    /// When it was removed, or found to be expired.
    pub(crate) ended_at: Option<i64>,
}

/// The database of links.
pub(crate) struct Links {
    database: Database,
    patience: Duration,
}

enum Database {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// A parameter of a statement.
#[derive(Debug, Clone)]
enum Value {
    Text(String),
    Number(Option<i64>),
    Bool(bool),
}

/// Why the database did not answer.
#[derive(Debug)]
pub(crate) struct Error {
    reason: String,
    is_temporary: bool,
}

impl Link {
    /// Whether it leads nowhere any more.
    pub(crate) fn has_ended(&self, now: Timestamp) -> bool {
        let is_over = |end: i64| end <= now.as_millisecond();
        self.ended_at.is_some_and(is_over) || self.expires_at.is_some_and(is_over)
    }
}

impl Links {
    /// Opens a database, and makes its table if there is none.
    pub(crate) async fn open(name: &str, patience: Duration) -> Result<Links, Error> {
        let database = match name.strip_prefix("sqlite:") {
            Some(path) => Database::Sqlite(Sqlite::open(path)?),
            None => {
                let postgres = Postgres::new(name)?;
                retry(patience, Error::is_temporary, || postgres.create_table()).await?;
                Database::Postgres(postgres)
            }
        };
        Ok(Links { database, patience })
    }

    /// Adds a link: the new one, or the one that its owner already has. The expiry is that of the last request.
    /// `None` if its alias leads elsewhere, or did once.
    pub(crate) async fn add(&self, new: &Link) -> Result<Option<Link>, Error> {
        let values = [
            text(&new.key),
            text(&new.owner),
            text(&new.url),
            Value::Bool(new.is_alias),
            Value::Number(Some(new.created_at)),
            Value::Number(new.expires_at),
        ];
        if new.is_alias {
            return self.row(ADD_ALIAS, &values).await;
        }
        for _ in 0..ADD_TURNS {
            if let Some(link) = self.row(ADD_GENERATED, &values).await? {
                return Ok(Some(link));
            }
            let now = Value::Number(Some(new.created_at));
            self.row(END_EXPIRED, &[text(&new.owner), text(&new.url), now]).await?;
        }
        Err(Error::temporary(format!("a link to {} expires again and again", new.url)))
    }

    pub(crate) async fn find(&self, key: &str) -> Result<Option<Link>, Error> {
        if !could_be_key(key) {
            return Ok(None);
        }
        self.row(FIND, &[text(key)]).await
    }

    /// Links of a user that were not removed, the newest first.
    pub(crate) async fn list(&self, owner: &str) -> Result<Vec<Link>, Error> {
        self.rows(LIST, &[text(owner), Value::Number(Some(LISTED_MAX))]).await
    }

    /// Ends a link of a user; whether there is one.
    pub(crate) async fn end(&self, key: &str, owner: &str, now: Timestamp) -> Result<bool, Error> {
        if !could_be_key(key) {
            return Ok(false);
        }
        let now = Value::Number(Some(now.as_millisecond()));
        let ended = self.row(END, &[now, text(key), text(owner)]).await?;
        Ok(ended.is_some())
    }

    /// Whether the database answers now: the one question that is asked without patience.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        let answer = timeout(CHECK_TIME_MAX, self.database.rows(FIND, &[text("health")])).await;
        let late = |_| Error::temporary(format!("no answer within {CHECK_TIME_MAX:?}"));
        answer.map_err(late)?.map(drop)
    }

    async fn row(&self, statement: &'static str, values: &[Value]) -> Result<Option<Link>, Error> {
        Ok(self.rows(statement, values).await?.pop())
    }

    async fn rows(&self, statement: &'static str, values: &[Value]) -> Result<Vec<Link>, Error> {
        retry(self.patience, Error::is_temporary, || self.database.rows(statement, values)).await
    }
}

impl Database {
    async fn rows(&self, statement: &'static str, values: &[Value]) -> Result<Vec<Link>, Error> {
        match self {
            Database::Sqlite(sqlite) => sqlite.rows(statement, values.to_vec()).await,
            Database::Postgres(postgres) => postgres.rows(statement, values).await,
        }
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Whether a database need be asked: anything may stand in a path, and PostgreSQL takes no NUL.
fn could_be_key(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    (1..=KEY_LEN_MAX).contains(&text.len()) && text.bytes().all(fits)
}

impl Error {
    fn temporary(reason: impl fmt::Display) -> Error {
        Error { reason: reason.to_string(), is_temporary: true }
    }

    fn lasting(reason: impl fmt::Display) -> Error {
        Error { reason: reason.to_string(), is_temporary: false }
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.is_temporary
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the database of links: {}", self.reason)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests;
