//! Which server is asked, how often, and when a call gives up.

use std::time::{Duration, Instant};

use keymill_client::raw::{Method, RawBody, RawRequest};
use keymill_client::{Client, ErrorKind, Key};
use tokio::sync::mpsc;

use super::stub::{Deed, Stub};

/// An address at which nobody listens.
async fn nobody() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn no_keys() -> Deed {
    Deed::problem(503, "", "no_keys_ready")
}

fn quick(servers: &[&str]) -> Client {
    let builder = Client::builder().servers(servers.iter().copied());
    builder.attempt_timeout(Duration::from_millis(300)).build().unwrap()
}

#[tokio::test]
async fn takes_share_a_connection_and_carry_the_token() {
    let stub = Stub::start([]).await;
    let token = format!("km_{}", "a".repeat(44));
    let client = Client::builder().servers([&stub.url]).token(&token).build().unwrap();
    let links = client.keyspace("li nks").for_caller("a&b");
    for _ in 0..5 {
        links.take().await.unwrap();
    }
    assert_eq!(links.take_many(3).await.unwrap().len(), 3);
    assert_eq!(stub.connections(), 1);
    let requests = stub.requests();
    assert_eq!(requests[0].line, "POST /v1/spaces/li%20nks/keys?caller=a%26b");
    assert_eq!(requests[5].line, "POST /v1/spaces/li%20nks/keys?count=3&caller=a%26b");
    let header = format!("authorization: bearer {token}");
    assert!(requests[0].headers.contains(&header), "{:?}", requests[0]);
}

#[tokio::test]
async fn a_take_whose_answer_was_lost_is_repeated() {
    let stub = Stub::start([Deed::HangUp]).await;
    quick(&[&stub.url]).keyspace("links").take().await.unwrap();
    assert_eq!(stub.requests().len(), 2);
}

#[tokio::test]
async fn what_may_not_be_repeated_is_sent_once_but_finds_a_server_that_listens() {
    let (stub, nobody) = (Stub::start([Deed::HangUp]).await, nobody().await);
    let client = quick(&[&nobody, &stub.url, &nobody]);
    let post = || RawRequest::new(Method::POST, "/v1/tokens");
    let error = client.send_raw(post()).await.unwrap_err();
    assert_eq!((error.kind(), stub.requests().len()), (ErrorKind::Unreachable, 1));
    for _ in 0..5 {
        assert_eq!(client.send_raw(post()).await.unwrap().status, 200);
    }
    assert_eq!(stub.requests().len(), 6);
}

#[tokio::test]
async fn a_server_that_stalls_costs_one_attempt_and_then_no_more() {
    let (stalls, works) = (Stub::start([]).await.always(Deed::Stall), Stub::start([]).await);
    let client = quick(&[&stalls.url, &works.url]);
    let started = Instant::now();
    for _ in 0..20 {
        client.keyspace("links").take().await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(stalls.requests().len() <= 5, "it was left alone");
    assert_eq!(works.requests().len(), 20);
}

#[tokio::test]
async fn a_server_without_keys_sends_the_call_to_another_at_once() {
    let (dry, works) = (Stub::start([]).await.always(no_keys()), Stub::start([]).await);
    let client = quick(&[&dry.url, &works.url]);
    let started = Instant::now();
    for _ in 0..10 {
        client.keyspace("links").take().await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_exhausted_keyspace_is_asked_for_at_every_server_once() {
    let exhausted = || Deed::problem(409, "", "exhausted");
    let one = Stub::start([]).await.always(exhausted());
    let other = Stub::start([exhausted()]).await;
    let client = quick(&[&one.url, &other.url]);
    let error = client.keyspace("links").take().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert_eq!((one.requests().len(), other.requests().len()), (1, 1));
    assert!(client.keyspace("links").take().await.is_ok(), "the other one holds keys again");
}

#[tokio::test]
async fn retry_after_is_respected_as_far_as_the_deadline_allows() {
    let limited = || Deed::problem(429, "Retry-After: 1\r\n", "rate_limited");
    let stub = Stub::start([limited()]).await;
    let started = Instant::now();
    quick(&[&stub.url]).keyspace("links").take().await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());

    let stub = Stub::start([limited()]).await;
    let client = Client::builder().servers([&stub.url]).deadline(Duration::from_millis(500));
    let started = Instant::now();
    let error = client.build().unwrap().keyspace("links").take().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RateLimited { retry_after: Duration::from_secs(1) });
    assert!(started.elapsed() < Duration::from_millis(400), "{:?}", started.elapsed());
}

#[tokio::test]
async fn retries_are_a_fraction_of_the_calls() {
    let stub = Stub::start([]).await.always(no_keys());
    let client = Client::builder().servers([&stub.url]).deadline(Duration::from_secs(2));
    let links = client.build().unwrap().keyspace("links");
    let call = || {
        let links = links.clone();
        tokio::spawn(async move { links.take().await.unwrap_err() })
    };
    let calls: Vec<_> = (0..100).map(|_| call()).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().kind(), ErrorKind::NoKeysReady);
    }
    let sent = stub.requests().len();
    assert!((100..=130).contains(&sent), "{sent} requests for 100 calls");
}

#[tokio::test]
async fn a_call_ends_by_its_deadline_with_what_was_wrong_last() {
    let stub = Stub::start([]).await.always(Deed::Stall);
    for servers in
        [vec![stub.url.clone()], vec![nobody().await], vec![nobody().await, stub.url.clone()]]
    {
        let client = Client::builder().servers(&servers).deadline(Duration::from_millis(400));
        let started = Instant::now();
        let error = client.build().unwrap().keyspace("links").take().await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Unreachable, "unreachable"));
        assert!(
            error.is_retryable() && servers.iter().any(|it| error.detail().contains(it)),
            "{error}"
        );
        assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_an_error() {
    let ok = |body: &str| Deed::Answer(200, "", body.to_owned());
    for deed in [
        ok("<html>"),
        ok(r#"{"keys":[]}"#),
        ok(r#"{"keys":["a","b","c"]}"#),
        ok(r#"{"keys":[1]}"#),
        ok("{}"),
        Deed::Answer(404, "", "nothing here".to_owned()),
    ] {
        let stub = Stub::start([deed.clone(), deed.clone()]).await;
        let links = quick(&[&stub.url]).keyspace("links");
        assert_eq!(links.take().await.unwrap_err().kind(), ErrorKind::BadAnswer, "{deed:?}");
        assert_eq!(links.take_many(2).await.unwrap_err().kind(), ErrorKind::BadAnswer, "{deed:?}");
        assert_eq!(stub.requests().len(), 2, "nothing is repeated");
    }
}

#[tokio::test]
async fn an_alias_that_a_lost_attempt_removed_is_removed() {
    let gone = || Deed::problem(404, "", "unknown_alias");
    let stub = Stub::start([Deed::HangUp, gone(), gone()]).await;
    let links = quick(&[&stub.url]).keyspace("links");
    links.remove_alias("sale", "me").await.unwrap();
    let error = links.remove_alias("sale", "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownAlias, "nothing was lost this time");
    assert_eq!(stub.requests()[0].line, "DELETE /v1/spaces/links/aliases/sale?owner=me");
}

#[tokio::test]
async fn bodies_and_answers_can_be_streams() {
    let stub = Stub::start([Deed::Answer(200, "", "x".repeat(300_000))]).await;
    let (lines, chunks) = mpsc::channel(1);
    tokio::spawn(async move {
        for number in 0..1_000 {
            lines.send(Ok(format!("{number}\n").into())).await.unwrap();
        }
    });
    let mut request = RawRequest::new(Method::POST, "/v1/spaces/pool/pool");
    request.body = RawBody::Chunks(chunks);
    let mut answer = quick(&[&stub.url]).send_raw(request).await.unwrap().check().await.unwrap();
    let mut len = 0;
    while let Some(chunk) = answer.chunk().await.unwrap() {
        len += chunk.len();
    }
    assert_eq!(len, 300_000);
    assert_eq!(stub.requests()[0].body.lines().count(), 1_000);
}

#[tokio::test]
async fn calls_at_the_same_time_have_connections_of_their_own_and_use_them_again() {
    let stub = Stub::start([]).await;
    let links = quick(&[&stub.url]).keyspace("links");
    let mut keys: Vec<Key> = Vec::new();
    for _ in 0..3 {
        // Several at a time, so that several connections are open.
        let takes: Vec<_> = (0..4)
            .map(|_| {
                let links = links.clone();
                tokio::spawn(async move { links.take().await })
            })
            .collect();
        for take in takes {
            keys.push(take.await.unwrap().unwrap());
        }
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 12);
    assert!(stub.connections() <= 4, "{}", stub.connections());
}
