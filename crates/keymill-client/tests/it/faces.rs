//! The cache and the blocking face, as a program uses them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use keymill_client::{CacheStatus, Client, ErrorKind, blocking};

use super::stub::{Deed, SETTINGS, Stub};

/// What a stub says of its keyspace.
fn settings(audit: &str) -> Deed {
    let settings = SETTINGS.replace("batch", audit);
    Deed::Answer(200, "", settings)
}

fn client(stub: &Stub) -> Client {
    Client::connect(&stub.url).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takes_from_a_shared_cache_need_few_requests_and_give_no_key_twice() {
    let stub = Stub::start([settings("batch")]).await;
    let cache = Arc::new(client(&stub).keyspace("links").cached());
    assert!(matches!(cache.status(), CacheStatus::Starting) && cache.is_empty());
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let cache = cache.clone();
            tokio::spawn(async move {
                let mut keys = Vec::new();
                for _ in 0..1_000 {
                    keys.push(cache.take().await.unwrap());
                }
                keys
            })
        })
        .collect();
    let mut keys = HashSet::new();
    for task in tasks {
        for key in task.await.unwrap() {
            assert!(keys.insert(key), "it came before");
        }
    }
    assert_eq!(keys.len(), 8_000);
    assert!(stub.requests().len() < 400, "{} requests", stub.requests().len());
    assert!(matches!(cache.status(), CacheStatus::On));
}

#[tokio::test]
async fn a_keyspace_that_records_keys_is_asked_for_each_of_them() {
    let stub = Stub::start([settings("key")]).await;
    let cache = client(&stub).keyspace("links").cached();
    for _ in 0..3 {
        cache.take().await.unwrap();
    }
    assert_eq!(cache.try_take(), None);
    assert!(matches!(cache.status(), CacheStatus::Off(reason) if reason.contains("records")));
    let lines: Vec<String> = stub.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(lines[0], "GET /v1/spaces/links");
    assert_eq!(lines[1..], ["POST /v1/spaces/links/keys"; 3]);

    let stub = Stub::start([]).await;
    let cache = client(&stub).keyspace("links").cache().any_keyspace().build();
    cache.take().await.unwrap();
    assert_eq!((stub.requests().len(), cache.len()), (1, 31));
}

#[tokio::test]
async fn a_token_that_may_not_read_the_settings_gets_no_cache() {
    let stub = Stub::start([Deed::problem(403, "", "forbidden")]).await;
    let cache = client(&stub).keyspace("links").cached();
    cache.take().await.unwrap();
    assert!(matches!(cache.status(), CacheStatus::Off(reason) if reason.contains("`read`")));
}

#[tokio::test]
async fn a_refusal_reaches_whoever_waits_and_a_later_take_asks_again() {
    let stub = Stub::start([settings("batch"), Deed::problem(409, "", "sealed")]).await;
    let cache = client(&stub).keyspace("links").cached();
    assert_eq!(cache.take().await.unwrap_err().kind(), ErrorKind::Sealed);
    let asked = stub.requests().len();
    assert_eq!(
        cache.take().await.unwrap_err().kind(),
        ErrorKind::Sealed,
        "not asked again at once"
    );
    assert_eq!(stub.requests().len(), asked);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    cache.take().await.unwrap();
}

#[tokio::test]
async fn a_caller_waits_for_keys_no_longer_than_the_deadline() {
    let stub =
        Stub::start([settings("batch")]).await.always(Deed::problem(503, "", "no_keys_ready"));
    let client = Client::builder().servers([&stub.url]).deadline(Duration::from_millis(400));
    let cache = client.build().unwrap().keyspace("links").cached();
    let started = std::time::Instant::now();
    let error = cache.take().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!((400..2_000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_take_of_a_cache_that_turns_out_to_be_off_has_one_deadline() {
    let time = Duration::from_millis(700);
    let keys = r#"{"space":"links","keys":["000000"]}"#.to_owned();
    let off = SETTINGS.replace("batch", "key");
    let stub = Stub::start([Deed::Late(time, off), Deed::Late(time, keys)]).await;
    let client = Client::builder().servers([&stub.url]).deadline(Duration::from_secs(1));
    let cache = client.build().unwrap().keyspace("links").cached();
    // Each of the two answers comes in time, but not both together.
    assert_eq!(cache.take().await.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn keys_that_expire_are_cached_although_the_clocks_differ() {
    let keys = r#"{"space":"links","keys":["a","b"],"expires_at":"2020-01-01T00:01:00Z"}"#;
    let date = "Date: Wed, 01 Jan 2020 00:00:00 GMT\r\n";
    let keys = Deed::Answer(200, date, keys.to_owned());
    let stub = Stub::start([settings("batch")]).await.always(keys);
    let links = client(&stub).keyspace("links");
    assert_eq!(links.cached().take().await.unwrap(), "a");
    let (keys, expires_at) = links.take_expiring(2).await.unwrap();
    assert_eq!((keys.len(), expires_at.unwrap().to_string()), (2, "2020-01-01T00:01:00Z".into()));
}

#[tokio::test]
async fn a_dropped_cache_fetches_no_more() {
    let stub = Stub::start([settings("batch")]).await.always(Deed::Stall);
    let cache = client(&stub).keyspace("links").cached();
    assert_eq!(cache.try_take(), None);
    while stub.requests().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(cache);
    // It would have asked again after the time of an attempt.
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    assert_eq!(stub.requests().len(), 2);
}

#[test]
fn a_cache_survives_the_runtime_that_filled_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let servers = runtime();
    let stub = servers.block_on(Stub::start([settings("batch")]));
    let driver = std::thread::spawn(move || servers.block_on(std::future::pending::<()>()));
    let cache = client(&stub).keyspace("links").cached();
    let mut keys = HashSet::new();
    for _ in 0..2 {
        // More than there are at first: the second runtime has to fetch, too.
        let taken = runtime().block_on(async {
            let mut taken = Vec::new();
            for _ in 0..40 {
                taken.push(cache.take().await.unwrap());
            }
            taken
        });
        keys.extend(taken);
    }
    assert_eq!(keys.len(), 80);
    assert!(!driver.is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_blocking_face_has_a_thread_of_its_own() {
    let stub = Stub::start([settings("batch")]).await;
    let url = stub.url.clone();
    let takes = move || {
        let client = blocking::Client::connect(&url).unwrap();
        let links = client.keyspace("links");
        let cache = links.cached();
        let mut keys = HashSet::from([cache.take().unwrap()]);
        while keys.len() < 500 {
            keys.extend(cache.try_take());
        }
        keys.insert(links.take().unwrap());
        keys.extend(links.take_many(9).unwrap());
        assert_eq!(keys.len(), 510);
    };
    tokio::task::spawn_blocking(takes).await.unwrap();
    assert!(stub.requests().len() < 50, "{}", stub.requests().len());
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_can_be_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("keymill-client-{}.sock", std::process::id()));
    let stub = Stub::start_unix(&path);
    client(&stub).keyspace("links").take().await.unwrap();
    assert!(stub.requests()[0].headers.contains("host: localhost"));
    std::fs::remove_file(&path).unwrap();
}
