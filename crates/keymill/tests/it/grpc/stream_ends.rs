//! How a stream ends: with its keyspace, its token, its client or its server.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keymill::access::AccessSettings;
use keymill::access::limits::AddressLimits;
use keymill_core::Blocklist;
use keymill_proto::v1::{self, Kind, TakeStreamRequest};
use serde_json::json;
use tokio::time::timeout;
use tonic::{Code, Request};

use super::stream::Keys;
use super::{Instance, SOON, client, ensure, is_problem, of_kind, take};
use crate::http::guarded::Guarded;

#[tokio::test]
async fn a_stream_that_cannot_be_is_refused_with_code_and_reason() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    ensure(&mut client, "urls", of_kind(Kind::Digest)).await;
    let ask = |space: &str, caller: &str| TakeStreamRequest {
        space: space.to_owned(),
        caller: caller.to_owned(),
        credit: 1,
    };
    for (first, code, why) in [
        (ask("nowhere", ""), Code::NotFound, "unknown_space"),
        (ask("", ""), Code::InvalidArgument, "bad_body"),
        (ask("urls", ""), Code::FailedPrecondition, "wrong_kind"),
        (ask("default", "a\nb"), Code::InvalidArgument, "bad_caller"),
    ] {
        let mut keys = Keys::begin(&mut client, first, None).await;
        is_problem(keys.end().await, code, why, "");
    }
    let nothing = client.take_stream(tokio_stream::empty()).await.unwrap();
    let end = nothing.into_inner().message().await;
    is_problem(end, Code::InvalidArgument, "bad_body", "first message");
    for second in [ask("default", ""), ask("", "me")] {
        let mut keys = Keys::of(&mut client, "default", 0, None).await;
        keys.credit.send(second).await.unwrap();
        is_problem(keys.end().await, Code::InvalidArgument, "bad_parameter", "first message");
    }
}

#[tokio::test]
async fn the_last_keys_come_before_the_end_of_the_keyspace() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    let few = v1::SpaceSettings {
        alphabet: Some("decimal".to_owned()),
        length: Some(1),
        blocklist: Some(false),
        ..of_kind(Kind::Sequential)
    };
    ensure(&mut client, "few", few).await;
    assert_eq!(take(&mut client, "few", 7).await.unwrap().len(), 7);
    let mut keys = Keys::of(&mut client, "few", 1_000, None).await;
    let mut taken = Vec::new();
    let end = loop {
        match keys.next().await {
            Ok(Some(some)) => taken.extend(some),
            end => break end,
        }
    };
    assert_eq!(taken, ["7", "8", "9"]);
    is_problem(end, Code::FailedPrecondition, "exhausted", "few");
}

#[tokio::test]
async fn a_stream_sends_what_is_left_in_memory_when_no_more_comes() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    // A lease is 1/64 of what is left, so that no piece is ever in memory as a whole.
    let few = v1::SpaceSettings {
        alphabet: Some("decimal".to_owned()),
        length: Some(3),
        blocklist: Some(false),
        ..of_kind(Kind::Sequential)
    };
    ensure(&mut client, "few", few).await;
    take(&mut client, "few", 1).await.unwrap();
    let mut keys = Keys::of(&mut client, "few", 1_000, None).await;
    let mut seen = HashSet::new();
    let end = loop {
        match keys.next().await {
            Ok(Some(some)) => {
                for key in some {
                    assert!(seen.insert(key.clone()), "{key} was handed out twice");
                }
            }
            end => break end,
        }
    };
    let end = end.expect_err("a keyspace of 1,000 keys has no 1,001st");
    assert!(["exhausted", "no_keys_ready"].contains(&super::reason(&end).as_str()), "{end:?}");
    assert!(!seen.is_empty(), "something came before");
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_its_streams_idle_or_not() {
    let guarded = Guarded::start().await;
    let instance = &guarded.instance;
    let mut client = client(instance).await;
    let allow = ["take:shop-links".to_owned()];
    let (idle, busy) = (guarded.token("idle", &allow).await, guarded.token("busy", &allow).await);
    let stays = guarded.token("stays", &allow).await;
    while instance.call_as(&idle, "POST", "/v1/spaces/shop-links/keys").await.status != 200 {}
    let mut idle = Keys::of(&mut client, "shop-links", 1, Some(&idle)).await;
    let mut busy = Keys::of(&mut client, "shop-links", u32::MAX, Some(&busy)).await;
    let mut stays = Keys::of(&mut client, "shop-links", 1, Some(&stays)).await;
    assert_eq!((idle.take(1).await.len(), stays.take(1).await.len()), (1, 1));
    busy.next().await.unwrap();
    for name in ["idle", "busy"] {
        let path = format!("/v1/tokens/{name}");
        assert_eq!(instance.call_as(&guarded.admin, "DELETE", &path).await.status, 204);
    }
    let began = Instant::now();
    for keys in [&mut idle, &mut busy] {
        let end = keys.end().await;
        is_problem(end, Code::Unauthenticated, "unauthorized", "revoked");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    stays.give(3).await;
    assert_eq!(stays.take(3).await.len(), 3);
}

#[tokio::test]
async fn the_first_token_ends_the_streams_of_those_without_one() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    take(&mut client, "default", 1).await.unwrap();
    let mut keys = Keys::of(&mut client, "default", 1, None).await;
    keys.take(1).await;
    instance.admin().await;
    is_problem(keys.end().await, Code::Unauthenticated, "unauthorized", "token");
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams_and_tells_them_to_go_elsewhere() {
    let mut instance = Instance::start().await;
    let mut client = client(&instance).await;
    take(&mut client, "default", 1).await.unwrap();
    let mut idle = Keys::of(&mut client, "default", 1, None).await;
    let mut busy = Keys::of(&mut client, "default", u32::MAX, None).await;
    idle.take(1).await;
    busy.next().await.unwrap();
    let began = Instant::now();
    instance.stop.take().unwrap().send(()).unwrap();
    for keys in [&mut idle, &mut busy] {
        is_problem(keys.end().await, Code::Unavailable, "stopping", "another");
    }
    timeout(SOON, &mut instance.ended).await.expect("the server ends").unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_stream_ends_at_its_deadline() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    take(&mut client, "default", 1).await.unwrap();
    let first = TakeStreamRequest { space: "default".to_owned(), credit: 2, ..Default::default() };
    let (_open, messages) = tokio::sync::mpsc::channel(1);
    let messages = tokio_stream::StreamExt::chain(
        tokio_stream::once(first),
        tokio_stream::wrappers::ReceiverStream::new(messages),
    );
    let mut request = Request::new(messages);
    request.metadata_mut().insert("grpc-timeout", "500m".parse().unwrap());
    let mut batches = client.take_stream(request).await.unwrap().into_inner();
    assert_eq!(batches.message().await.unwrap().unwrap().keys.len(), 14);
    let end = timeout(SOON, batches.message()).await.expect("it ends");
    is_problem(end, Code::DeadlineExceeded, "deadline_exceeded", "grpc-timeout");
}

#[tokio::test]
async fn a_rate_paces_a_stream_and_a_quota_ends_it() {
    let guarded = Guarded::start().await;
    let instance = &guarded.instance;
    let mut client = client(instance).await;
    let path = "/v1/spaces/shop-links/keys";
    while instance.call_as(&guarded.admin, "POST", path).await.status != 200 {}
    let paced = json!({"name": "paced", "allow": ["take:*"], "rate": 20});
    let paced = instance.token_by(&guarded.admin, &paced).await;
    let began = Instant::now();
    let mut keys = Keys::of(&mut client, "shop-links", 40, Some(&paced)).await;
    keys.take(40).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(700) && took < Duration::from_secs(10), "{took:?}");
    let some = json!({"name": "some", "allow": ["take:*"], "quota": 1_234});
    let some = instance.token_by(&guarded.admin, &some).await;
    let mut keys = Keys::of(&mut client, "shop-links", 5_000, Some(&some)).await;
    keys.take(1_234).await;
    is_problem(keys.end().await, Code::ResourceExhausted, "rate_limited", "1234");
}

#[tokio::test]
async fn an_address_without_a_token_is_slowed_down_on_a_stream_too() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    take(&mut client, "default", 1).await.unwrap();
    instance.service.reload(Blocklist::builtin(), Default::default(), 100);
    let limits = Some(Arc::new(AddressLimits::new(NonZeroU32::new(10).unwrap())));
    instance.http.set_access(AccessSettings { address_limits: limits, ..Default::default() });
    // The call itself and nine more requests are allowed at once, each for a hundred keys.
    let began = Instant::now();
    let mut keys = Keys::of(&mut client, "default", 1_600, None).await;
    keys.take(1_600).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(10), "{took:?}");
}
