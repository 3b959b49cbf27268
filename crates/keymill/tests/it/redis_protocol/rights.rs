//! Who may do what over the Redis protocol: one table of every command and what it needs.
//!
//! A command without a row fails the first test. The other tests walk the table: whoever has no valid token gets
//! NOAUTH, whoever has the wrong one NOPERM, both without a word on what exists; the right one gets past.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::{Server, Value};

use Needs::{Nothing, Read, Take, Token};

/// What a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing: it is how a client becomes known, or leaves.
    Nothing,
    /// Any token.
    Token,
    /// The right `take` in the keyspace that it names.
    Take,
    /// The right `read` in the keyspace that it names.
    Read,
}

/// Every command. The keyspaces in it begin with `shop-`.
const ROWS: &[(&[&str], Needs)] = &[
    (&["SPOP", "shop-links"], Take),
    (&["SPOP", "shop-links", "2"], Take),
    (&["INCR", "shop-ids"], Take),
    (&["INCRBY", "shop-ids", "1"], Take),
    (&["SCARD", "shop-links"], Read),
    (&["SISMEMBER", "shop-links", "0000000"], Read),
    (&["EXISTS", "shop-links"], Read),
    (&["EXISTS", "shop-links", "shop-ids"], Read),
    (&["TYPE", "shop-links"], Read),
    (&["PING"], Token),
    (&["ECHO", "x"], Token),
    (&["SELECT", "0"], Token),
    (&["CLIENT", "ID"], Token),
    (&["CLIENT", "LIST"], Token),
    (&["COMMAND"], Token),
    (&["COMMAND", "COUNT"], Token),
    (&["CONFIG", "GET", "save"], Token),
    (&["INFO"], Token),
    (&["EXEC"], Token),
    (&["DISCARD"], Token),
    (&["MULTI"], Token),
    // Chooses the version of the protocol only for those who are known, or become known with it.
    (&["HELLO", "3"], Token),
    (&["AUTH", "x"], Nothing),
    (&["RESET"], Nothing),
    (&["QUIT"], Nothing),
];

/// What is no command, or is one that is sent wrongly.
const NONE: &[&[&str]] =
    &[&["NOPE"], &["GET", "shop-links"], &["SPOP"], &["TYPE"], &["SPOP", "a", "b", "c"]];

#[test]
fn every_command_has_a_row() {
    let rows: BTreeSet<String> = ROWS.iter().map(|(parts, _)| parts[0].to_lowercase()).collect();
    let source = include_str!("../../../src/front/redis/commands.rs");
    let entries = source.split("    entry(\"").skip(1);
    let entries: BTreeSet<String> =
        entries.map(|entry| entry.split('"').next().unwrap().to_owned()).collect();
    assert!(entries.len() >= 21, "{entries:?}");
    assert_eq!(rows, entries, "the table has a row for every command, and no other");
}

#[tokio::test]
async fn without_a_valid_token_everything_is_refused_alike() {
    let guarded = Guarded::start().await;
    let before = guarded.everything().await;
    // Those who were known when they connected, and are not any more.
    let revoked = guarded.token("revoked", &["admin:*"]).await;
    let rows: Vec<&[&str]> =
        ROWS.iter().filter(|(_, needs)| *needs != Nothing).map(|(parts, _)| *parts).collect();
    let mut clients = Vec::new();
    for _ in &rows {
        clients.push(guarded.server.connect_as(&revoked).await);
    }
    guarded.revoke("revoked").await;
    for (parts, mut was_known) in rows.into_iter().zip(clients) {
        for client in [&mut was_known, &mut guarded.server.connect().await] {
            let refusal = client.ask(parts).await;
            refusal.is_error("NOAUTH ");
            assert_eq!(client.ask(&nowhere(parts)).await, refusal, "{parts:?}");
        }
    }
    for parts in NONE {
        guarded.server.connect().await.ask(parts).await.is_error("NOAUTH ");
    }
    assert_eq!(guarded.everything().await, before, "something was taken or changed");
}

#[tokio::test]
async fn a_token_without_the_right_is_refused_alike_wherever_it_has_others() {
    let guarded = Guarded::start().await;
    let before = guarded.everything().await;
    for (right, others) in [(Take, "read:*,name:*"), (Read, "take:*,name:*")] {
        let others: Vec<&str> = others.split(',').collect();
        let name = if right == Take { "take" } else { "read" };
        let others = guarded.token(&format!("{name}-others"), &others).await;
        let elsewhere = format!("{name}:other,shop,shop-link,shop-linksx,shop-links-*");
        let elsewhere =
            guarded.token(&format!("{name}-elsewhere"), &[&elsewhere, "admin:other-*"]).await;
        for (parts, _) in ROWS.iter().filter(|(_, needs)| *needs == right) {
            for token in [&others, &elsewhere] {
                let mut client = guarded.server.connect_as(token).await;
                let refusal = client.ask(parts).await;
                refusal.is_error("NOPERM the token does not allow this: it needs");
                let Value::Error(refusal) = refusal else { unreachable!("it is one") };
                let Value::Error(elsewhere) = client.ask(&nowhere(parts)).await else {
                    panic!("{parts:?}")
                };
                assert_eq!(elsewhere.replace("nowhere-", "shop-"), refusal, "{parts:?}");
            }
        }
    }
    assert_eq!(guarded.everything().await, before, "something was taken or changed");
}

#[tokio::test]
async fn one_keyspace_of_several_without_the_right_is_enough_to_be_refused() {
    let guarded = Guarded::start().await;
    let token = guarded.token("some", &["read:shop-links"]).await;
    let mut client = guarded.server.connect_as(&token).await;
    assert_eq!(client.ask(&["EXISTS", "shop-links", "shop-links"]).await, Value::Integer(2));
    for parts in [["EXISTS", "shop-links", "shop-ids"], ["EXISTS", "shop-ids", "shop-links"]] {
        client.ask(&parts).await.is_error("NOPERM ");
    }
}

#[tokio::test]
async fn the_right_token_gets_past_by_name_by_pattern_and_as_admin() {
    let guarded = Guarded::start().await;
    let mut tokens = Vec::new();
    for right in ["take", "read"] {
        for (kind, patterns) in
            [("named", "shop-links,shop-ids"), ("pattern", "shop-*"), ("all", "*")]
        {
            let allow = format!("{right}:{patterns}");
            tokens.push((right, guarded.token(&format!("{right}-{kind}"), &[&allow]).await));
        }
    }
    let admin_of_some = guarded.token("admin-of-some", &["admin:shop-*"]).await;
    for right in ["take", "read"] {
        tokens.push((right, admin_of_some.clone()));
        tokens.push((right, guarded.admin.clone()));
    }
    for (right, token) in &tokens {
        for (parts, needs) in ROWS {
            let is_its = match needs {
                Take => *right == "take",
                Read => *right == "read",
                Token | Nothing => true,
            };
            if is_its {
                let mut client = guarded.server.connect_as(token).await;
                let answer = client.settled(parts).await;
                let is_refused =
                    |start: &str| matches!(&answer, Value::Error(it) if it.starts_with(start));
                assert!(!is_refused("NOAUTH") && !is_refused("NOPERM"), "{parts:?}: {answer:?}");
            }
        }
        for parts in NONE {
            guarded.server.connect_as(token).await.ask(parts).await.is_error("ERR ");
        }
    }
}

#[tokio::test]
async fn a_batch_is_run_with_the_rights_that_there_are_when_it_is_run() {
    let guarded = Guarded::start().await;
    let token = guarded.token("shop", &["take:shop-*"]).await;
    let mut client = guarded.server.connect_as(&token).await;
    client.settled(&["SPOP", "shop-links"]).await;
    client.ask(&["MULTI"]).await;
    for parts in [&["SPOP", "shop-links"][..], &["SPOP", "default"], &["SCARD", "shop-links"]] {
        assert_eq!(client.ask(parts).await, Value::word("QUEUED"));
    }
    let Value::Array(answers) = client.ask(&["EXEC"]).await else { panic!("a list") };
    assert_eq!(answers[0].keys().len(), 1);
    answers[1].is_error("NOPERM ");
    answers[2].is_error("NOPERM ");
    client.ask(&["MULTI"]).await;
    client.ask(&["SPOP", "shop-links"]).await;
    guarded.revoke("shop").await;
    client.ask(&["EXEC"]).await.is_error("NOAUTH ");
}

/// An instance that has tokens.
struct Guarded {
    server: Server,
    admin: String,
}

impl Guarded {
    async fn start() -> Guarded {
        let server = Server::start().await;
        for (space, kind) in [("shop-links", "shuffled"), ("shop-ids", "snowflake")] {
            assert_eq!(server.instance.put(space, &json!({"kind": kind})).await.status, 201);
        }
        let admin = server.instance.admin().await;
        Guarded { server, admin }
    }

    async fn token(&self, name: &str, allow: &[&str]) -> String {
        let ask = json!({"name": name, "allow": allow});
        self.server.instance.token_by(&self.admin, &ask).await
    }

    async fn revoke(&self, name: &str) {
        let path = format!("/v1/tokens/{name}");
        let answer = self.server.instance.call_as(&self.admin, "DELETE", &path).await;
        assert_eq!(answer.status, 204, "{}", answer.body);
    }

    /// All that a command could take or change.
    async fn everything(&self) -> Vec<Json> {
        let mut all = Vec::new();
        for path in ["/v1/spaces", "/v1/leases"] {
            let answer = self.server.instance.call_as(&self.admin, "GET", path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            all.push(answer.json());
        }
        all
    }
}

/// A command for keyspaces that do not exist.
fn nowhere(parts: &[&'static str]) -> Vec<&'static str> {
    let elsewhere = |part: &&'static str| match *part {
        "shop-links" => "nowhere-links",
        "shop-ids" => "nowhere-ids",
        part => part,
    };
    parts.iter().map(elsewhere).collect()
}
