//! Migrations only add: what the first version wrote and read still works on the newest schema.
//!
//! The statements here are the first version's own, and are never changed.

use keymill_engine::internals::store::{LeasePage, Opening, Store};
use mysql_async::prelude::Queryable;

use crate::servers;

/// A space, a lease of it and their holder, as the first version makes them.
const SPACE: &str =
    r#"'old', '{"kind":"shuffled","alphabet":"base62","length":7}', '{}', NULL, 1000, 10, 2"#;
const LEASE: &str = "'old', 2, 0, 10, 'lease', 'i1', 1700000000000";
const INSTANCE: &str = "'i1', 'host', 7, '0.1.0', 1700000000000, 1700000000000";

#[tokio::test]
async fn the_first_schema_still_works_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keymill.db");
    let url = format!("sqlite:{}", path.display());
    let store = keymill_engine::internals::store::open(&url, Opening::default()).await.unwrap();
    let first = rusqlite::Connection::open(&path).unwrap();
    for statement in statements().iter().chain(&updates("1700000000001")) {
        first.execute(statement, []).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    assert_eq!(store.admin.migrate().await.unwrap(), Vec::<String>::new());
    check(&store).await;
}

#[tokio::test]
async fn the_first_schema_still_works_on_postgres() {
    let Some(url) = servers::new_store("postgres") else { return };
    let store = keymill_engine::internals::store::open(&url, Opening::default()).await.unwrap();
    let (server, schema) = url.split_once("?schema=").unwrap();
    let (first, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    first.batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
    for statement in statements().iter().chain(&updates("1700000000001")) {
        first.execute(statement, &[]).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    assert_eq!(store.admin.migrate().await.unwrap(), Vec::<String>::new());
    check(&store).await;
}

#[tokio::test]
async fn the_first_schema_still_works_on_mysql() {
    check_mysql("mysql").await;
}

#[tokio::test]
async fn the_first_schema_still_works_on_mysql9() {
    check_mysql("mysql9").await;
}

async fn check_mysql(kind: &str) {
    let Some(url) = servers::new_store(kind) else { return };
    let store = keymill_engine::internals::store::open(&url, Opening::default()).await.unwrap();
    let mut first = mysql_async::Conn::from_url(&url).await.unwrap();
    for statement in statements().iter().chain(&updates("1700000000001")) {
        // There the first version notes the holder of an open lease once more.
        let statement = statement.replace("instance,\n", "instance, open_for,\n");
        let statement = statement.replace("'i1', 1700000000000)", "'i1', 'i1', 1700000000000)");
        let done = first.query_drop(&statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    assert_eq!(store.admin.migrate().await.unwrap(), Vec::<String>::new());
    check(&store).await;
}

#[tokio::test]
async fn a_database_of_another_program_is_left_alone() {
    let Some(url) = servers::new_store("mysql") else { return };
    let (server, database) = url.rsplit_once('/').unwrap();
    let mut other = mysql_async::Conn::from_url(format!("{server}/mysql")).await.unwrap();
    let make = format!("CREATE DATABASE {database}; CREATE TABLE {database}.orders (id INT)");
    other.query_drop(make).await.unwrap();
    let refusal = keymill_engine::internals::store::open(&url, Opening::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("another program's tables"), "{refusal}");
}

#[tokio::test]
async fn a_user_who_may_not_change_the_schema_can_run_on_one_that_is_there() {
    let Some(url) = servers::new_store("postgres") else { return };
    let (server, schema) = url.split_once("?schema=").unwrap();
    let (owner, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    owner.batch_execute(&format!("CREATE ROLE {schema} LOGIN")).await.unwrap();
    let user = url.replace("keymill@", &format!("{schema}@"));
    let refusal = keymill_engine::internals::store::open(&user, Opening::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("keymill store migrate"), "{refusal}");
    keymill_engine::internals::store::open(&url, Opening::default())
        .await
        .unwrap()
        .admin
        .migrate()
        .await
        .unwrap();
    let grant = format!(
        "GRANT USAGE ON SCHEMA {schema} TO {schema};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema}"
    );
    owner.batch_execute(&grant).await.unwrap();
    let store = keymill_engine::internals::store::open(&user, Opening::default()).await.unwrap();
    assert_eq!(store.admin.secret(Some("s")).await.unwrap().as_deref(), Some("s"));
}

/// What the first version writes.
fn statements() -> [String; 3] {
    [
        format!(
            "INSERT INTO spaces (name, definition, tuning, fingerprint, capacity, next, revision,
             created_at, returned) VALUES ({SPACE}, 1700000000000, '[]')"
        ),
        format!(
            "INSERT INTO instances (id, host, pid, version, started_at, seen_at)
             VALUES ({INSTANCE})"
        ),
        format!(
            "INSERT INTO leases (space, lease, start_ordinal, end_ordinal, purpose, instance,
             granted_at) VALUES ({LEASE})"
        ),
    ]
}

/// What the first version changes.
fn updates(now: &str) -> [String; 3] {
    [
        format!(
            "UPDATE leases SET closed_at_ordinal = 6, closed_at = {now}
             WHERE space = 'old' AND lease = 2 AND instance = 'i1' AND closed_at IS NULL"
        ),
        "UPDATE spaces SET next = 10, revision = 3, returned = '[[6,10]]' WHERE name = 'old'"
            .to_owned(),
        format!("UPDATE instances SET seen_at = {now}, stopped_at = {now} WHERE id = 'i1'"),
    ]
}

/// The newest version understands it.
async fn check(store: &Store) {
    let space = store.spaces.space("old").await.unwrap();
    assert_eq!((space.mark.next, space.mark.revision, space.left()), (10, 3, 994));
    let page = LeasePage { limit: 10, ..LeasePage::default() };
    let leases = store.leases.leases(&page).await.unwrap();
    assert_eq!((leases[0].lease, leases[0].closed_at_ordinal), (2, Some(6)));
    assert_eq!(leases[0].holder.host, "host");
}
