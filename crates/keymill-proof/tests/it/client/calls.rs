//! Every call, over HTTP and over gRPC, and past a server that was killed.

use std::collections::HashSet;

use keymill_client::{Audit, Client, Definition, ErrorKind, Key, KeyState, Kind, blocking};
use keymill_proof::{Deployment, Fleet, Received};

use super::{builder, client, client_of};

#[tokio::test]
async fn every_call_does_over_http_what_it_says() {
    let deployment = Deployment::sqlite();
    let server = deployment.start("d0");
    every_call(&client(&server)).await;
}

#[tokio::test]
async fn every_call_does_over_grpc_what_it_says() {
    let deployment = Deployment::sqlite();
    let server = deployment.start("d0");
    every_call(&builder(&server).grpc().build().unwrap()).await;
}

async fn every_call(client: &Client) {
    keyspaces(client).await;
    takes(client).await;
    aliases(client).await;
    digests(client).await;
    used_keys(client).await;
}

async fn keyspaces(client: &Client) {
    let wanted =
        Definition { length: Some(8), prefix: Some("a_".to_owned()), ..Definition::default() };
    let links = client.keyspace("links");
    let made = links.ensure(&wanted).await.unwrap();
    assert_eq!((made.name.as_str(), made.capacity), ("links", 62_u128.pow(8)));
    assert_eq!((made.definition.length, made.definition.kind), (Some(8), Some(Kind::Shuffled)));
    assert_eq!(links.ensure(&wanted).await.unwrap().created_at, made.created_at);
    assert_eq!(links.show().await.unwrap().definition, made.definition);
    let page = client.keyspaces(None).await.unwrap();
    let names: Vec<&str> = page.items.iter().map(|info| info.name.as_str()).collect();
    assert_eq!((names, page.next), (vec!["default", "links"], None));
    let page = client.keyspaces(Some("default")).await.unwrap();
    assert_eq!(page.items.len(), 1);
}

async fn takes(client: &Client) {
    let links = client.keyspace("links");
    let key = links.take().await.unwrap();
    assert!(key.starts_with("a_") && key.len() == 10, "{key}");
    let many = links.take_many(5_000).await.unwrap();
    let mut all: HashSet<&str> = many.iter().map(Key::as_str).collect();
    all.insert(&key);
    assert_eq!(all.len(), 5_001);

    let explanation = links.explain(&key).await.unwrap();
    assert_eq!((explanation.state, explanation.key.as_str()), (KeyState::Leased, key.as_str()));
    let lease = explanation.lease.unwrap();
    let ordinal = explanation.ordinal.unwrap();
    assert!((lease.start..lease.end).contains(&ordinal) && lease.holder.pid > 0, "{lease:?}");
    assert!(explanation.number.is_some() && !explanation.reason.is_empty());
    assert_eq!(links.explain("?!").await.unwrap().state, KeyState::Invalid);
}

async fn aliases(client: &Client) {
    let links = client.keyspace("links");
    assert!(links.add_alias("sale", "me").await.unwrap(), "it is new");
    assert!(!links.add_alias("sale", "me").await.unwrap(), "it is mine already");
    let taken = links.add_alias("sale", "you").await.unwrap_err();
    assert_eq!((taken.kind(), taken.code()), (ErrorKind::Taken, "taken"));
    links.add_alias("zoo", "").await.unwrap();
    let alias = links.alias("sale").await.unwrap();
    assert_eq!((alias.alias.as_str(), alias.owner.as_str()), ("sale", "me"));
    let page = links.aliases(None).await.unwrap();
    assert_eq!(page.items.len(), 2);
    assert_eq!(page.items[0], alias);
    assert_eq!(links.aliases(Some("sale")).await.unwrap().items[0].alias, "zoo");
    assert_eq!(links.remove_alias("sale", "").await.unwrap_err().kind(), ErrorKind::Taken);
    links.remove_alias("sale", "me").await.unwrap();
    assert_eq!(links.alias("sale").await.unwrap_err().kind(), ErrorKind::UnknownAlias);
    assert_eq!(links.explain("zoo").await.unwrap().state, KeyState::Alias);
}

async fn digests(client: &Client) {
    let digests = client.keyspace("digests");
    let wanted = Definition { kind: Some(Kind::Digest), ..Definition::default() };
    digests.ensure(&wanted).await.unwrap();
    let first = digests.digest("https://example.org/").await.unwrap();
    assert!(first.made);
    let again = digests.digest("https://example.org/").await.unwrap();
    assert_eq!((&again.key, again.made), (&first.key, false));
    let elsewhere = digests.digest_in("other", "https://example.org/").await.unwrap();
    assert_ne!(elsewhere.key, first.key);
    let many = digests.digest_many("", &["b", "https://example.org/", "c"]).await.unwrap();
    assert_eq!((many.len(), &many[1]), (3, &first.key));
}

async fn used_keys(client: &Client) {
    let recorded = client.keyspace("recorded");
    let wanted = Definition { audit: Some(Audit::Key), ..Definition::default() };
    recorded.ensure(&wanted).await.unwrap();
    let recorded = recorded.for_caller("alice & bob");
    let key = recorded.take().await.unwrap();
    let explanation = recorded.explain(&key).await.unwrap();
    assert_eq!(explanation.state, KeyState::Issued);
    assert_eq!(explanation.used.unwrap().caller, "alice & bob");
    let retired = recorded.retire(&key).await.unwrap();
    assert!(retired.retired_at.is_some() && retired.key == key.as_str(), "{retired:?}");
    assert_eq!(recorded.explain(&key).await.unwrap().state, KeyState::Retired);
}

#[test]
fn the_blocking_face_has_the_same_calls() {
    let deployment = Deployment::sqlite();
    let server = deployment.start("d0");
    let client = blocking::Client::new(client(&server)).unwrap();
    let links = client.keyspace("links");
    links.ensure(&Definition::default()).unwrap();
    let key = links.take().unwrap();
    assert_eq!(links.explain(&key).unwrap().state, KeyState::Leased);
    assert!(links.add_alias("sale", "me").unwrap());
    assert_eq!(links.alias("sale").unwrap(), links.aliases(None).unwrap().items[0]);
    links.remove_alias("sale", "me").unwrap();
    assert_eq!(client.keyspaces(None).unwrap().items.len(), 2);
    let mut received = Received::default();
    received.add_key(&key);
    let cache = links.cached();
    for _ in 0..10_000 {
        received.add_key(&cache.take().unwrap());
    }
    assert_eq!(links.digest("x").unwrap_err().kind(), ErrorKind::WrongKind);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_past_a_server_that_was_killed_and_return_to_it() {
    let deployment = Deployment::sqlite();
    let fleet =
        Fleet::start(["d0", "d1", "d2"].map(|name| deployment.server(name))).keeps_addresses();
    let http = client_of(&fleet).keyspace("default");
    let urls = fleet.each().map(|server| super::url(&server));
    let grpc = Client::builder().servers(urls).grpc().build().unwrap().keyspace("default");
    let mut received = Received::default();
    for killed in 0..3 {
        for call in 0..300 {
            if call == 100 {
                fleet.hold(killed).kill();
            }
            received.add_key(&http.take().await.unwrap());
            received.add_key(&grpc.take().await.unwrap());
        }
        fleet.hold(killed).start();
    }
    // The servers that are left answer alone, once all others have come and gone.
    for killed in [0, 1] {
        fleet.hold(killed).kill();
    }
    for _ in 0..100 {
        received.add_key(&http.take().await.unwrap());
        received.add_key(&grpc.take().await.unwrap());
    }
    assert_eq!(received.len(), 2_000);
}
