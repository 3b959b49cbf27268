//! Errors as real servers give them: each has the kind that a program matches on.

use keymill_client::{Client, Definition, Error, ErrorKind, Kind};
use keymill_proof::{Deployment, Server};

use super::super::watchful;
use super::{builder, client};

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_the_same_kinds_over_http_and_grpc() {
    let deployment = Deployment::sqlite();
    let server = watchful(&deployment, "d0").start();
    prepare(&deployment, &client(&server)).await;
    refusals(&client(&server)).await;
    refusals(&builder(&server).grpc().build().unwrap()).await;
}

/// Keyspaces that refuse.
async fn prepare(deployment: &Deployment, client: &Client) {
    let tiny = Definition {
        kind: Some(Kind::Sequential),
        alphabet: Some("decimal".to_owned()),
        length: Some(1),
        blocklist: Some(false),
        ..Definition::default()
    };
    let tiny_space = client.keyspace("tiny");
    tiny_space.ensure(&tiny).await.unwrap();
    while tiny_space.take_many(10).await.is_ok() {}
    let sealed = client.keyspace("sealed");
    sealed.ensure(&Definition::default()).await.unwrap();
    deployment.run("cli", &["space", "seal", "sealed", "--yes"]);
    for _ in 0..1_000 {
        if sealed.take().await.is_err() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the server does not notice the seal");
}

async fn refusals(client: &Client) {
    let default = client.keyspace("default");
    is(&client.keyspace("none").take().await, ErrorKind::UnknownKeyspace, "unknown_space");
    is(&default.digest("x").await, ErrorKind::WrongKind, "wrong_kind");
    is(&default.take_many(0).await, ErrorKind::Invalid, "bad_count");
    is(&default.take_many(1_000_000).await, ErrorKind::Invalid, "bad_count");
    is(&default.alias("none").await, ErrorKind::UnknownAlias, "unknown_alias");
    is(&default.add_alias("/", "").await, ErrorKind::Invalid, "bad_alias");
    is(&client.keyspace("sealed").take().await, ErrorKind::Sealed, "sealed");
    let exhausted = is(&client.keyspace("tiny").take().await, ErrorKind::Exhausted, "exhausted");
    assert!(exhausted.held_elsewhere().is_some(), "{exhausted:?}");
    assert!(exhausted.request_id().is_some() && exhausted.server().is_some(), "{exhausted:?}");
    let other = Definition { length: Some(9), ..Definition::default() };
    let different =
        is(&default.ensure(&other).await, ErrorKind::DifferentDefinition, "different_definition");
    assert_eq!((different.differences().len(), different.status()), (1, Some(409)));
    assert_eq!(different.differences()[0].setting, "length");
}

#[track_caller]
fn is<T: std::fmt::Debug>(found: &Result<T, Error>, kind: ErrorKind, code: &str) -> Error {
    let error = found.as_ref().unwrap_err();
    assert_eq!((error.kind(), error.code()), (kind, code), "{error}");
    error.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_do_not_suffice_are_told_from_those_that_are_unknown() {
    let deployment = Deployment::sqlite();
    let server = watchful(&deployment, "d0").start();
    let root = deployment.run("cli", &["token", "create", "root", "--allow", "admin:*"]);
    let shop = deployment.run("cli", &["token", "create", "shop", "--allow", "take:default"]);
    let with = |token: &str| builder(&server).token(token.trim()).build().unwrap();
    until_known(&server, root.trim()).await;
    for grpc in [false, true] {
        let with = |token: &str| match grpc {
            false => with(token),
            true => builder(&server).token(token.trim()).grpc().build().unwrap(),
        };
        let shop = with(&shop).keyspace("default");
        shop.take().await.unwrap();
        is(&shop.explain("x").await, ErrorKind::Forbidden, "forbidden");
        is(
            &with(&format!("km_{}", "x".repeat(44))).keyspace("default").take().await,
            ErrorKind::Unauthorized,
            "unauthorized",
        );
        let without = builder(&server);
        let without = if grpc { without.grpc() } else { without };
        let without = without.build().unwrap().keyspace("default");
        is(&without.take().await, ErrorKind::Unauthorized, "unauthorized");
        with(&root).keyspace("default").show().await.unwrap();
    }
}

async fn until_known(server: &Server, token: &str) {
    let default = builder(server).token(token).build().unwrap().keyspace("default");
    for _ in 0..1_000 {
        if default.show().await.is_ok() && client(server).keyspace("default").show().await.is_err()
        {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the server does not notice the token");
}
