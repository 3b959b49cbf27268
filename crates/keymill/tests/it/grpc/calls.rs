//! Calls that take keys: of every kind, and refused for every reason.

use std::collections::HashSet;
use std::time::Duration;

use keymill_proto::v1::{self, Kind, TakeRequest};
use tonic::{Code, Request};

use super::{Instance, client, ensure, is_problem, malformed, of_kind, take};

#[tokio::test]
async fn keys_of_every_kind_are_taken_and_none_twice() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    let key = v1::SpaceSettings { audit: Some(v1::Audit::Key.into()), ..Default::default() };
    let plain = v1::SpaceSettings { length: Some(0), ..of_kind(Kind::Sequential) };
    let pool = v1::SpaceSettings { low_water: Some(5_000), ..of_kind(Kind::Pooled) };
    for (space, settings, large) in [
        ("shuffled", of_kind(Kind::Shuffled), 20_000),
        ("sequential", plain, 20_000),
        ("ids", of_kind(Kind::Snowflake), 20_000),
        ("uuids", of_kind(Kind::Uuid), 20_000),
        ("noted", key, 5_000),
        ("pool", pool, 2_000),
    ] {
        ensure(&mut client, space, settings).await;
        let mut seen = HashSet::new();
        for count in [1, 1, 2, 300, large] {
            let keys = settled(&mut client, space, count).await;
            assert_eq!(keys.len(), count as usize, "{space}");
            for key in keys {
                assert!(seen.insert(key.clone()), "{key} of {space} was handed out twice");
            }
        }
    }
}

#[tokio::test]
async fn one_key_is_taken_where_no_count_is_given() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    take(&mut client, "default", 1).await.unwrap();
    let ask = TakeRequest { space: "default".to_owned(), ..Default::default() };
    let mut request = Request::new(ask);
    request.metadata_mut().insert("x-request-id", "mine-1".parse().unwrap());
    let answer = client.take(request).await.unwrap();
    assert_eq!(answer.metadata().get("x-request-id").unwrap(), "mine-1");
    let answer = answer.into_inner();
    assert_eq!((answer.keys.len(), answer.expires_at), (1, None));
    assert_eq!(answer.keys[0].len(), 7);
    // And where none is given, one is made.
    let ask = TakeRequest { space: "default".to_owned(), ..Default::default() };
    let id = client.take(ask).await.unwrap().metadata().get("x-request-id").cloned();
    assert!(id.unwrap().to_str().unwrap().len() > 10);
}

#[tokio::test]
async fn the_last_keys_of_a_keyspace_are_fewer_and_behind_them_are_none() {
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
    assert_eq!(take(&mut client, "few", 7).await.unwrap(), ["7", "8", "9"]);
    for count in [1, 7] {
        let end = take(&mut client, "few", count).await;
        is_problem(end, Code::FailedPrecondition, "exhausted", "few");
    }
    // Longer ones are taken once there are some.
    instance.service.grow("few", 3).await.unwrap();
    let longer = async {
        loop {
            match take(&mut client, "few", 1).await {
                Ok(keys) => break keys,
                // It was used up, and is looked at again with the next heartbeat.
                Err(status) => assert_eq!(super::reason(&status), "exhausted", "{status:?}"),
            }
        }
    };
    let longer = tokio::time::timeout(super::SOON, longer).await.expect("there are longer keys");
    assert_eq!(longer, ["000"]);
    instance.service.seal("few").await.unwrap();
    let sealed = async {
        loop {
            if let Err(status) = take(&mut client, "few", 1).await {
                break is_problem(Err::<(), _>(status), Code::FailedPrecondition, "sealed", "few");
            }
        }
    };
    tokio::time::timeout(super::SOON, sealed).await.expect("it is sealed within a heartbeat");
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused_with_code_and_reason() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    ensure(&mut client, "urls", of_kind(Kind::Digest)).await;
    ensure(&mut client, "pool", of_kind(Kind::Pooled)).await;
    let ask = |space: &str, count: u32, caller: &str| TakeRequest {
        space: space.to_owned(),
        count: Some(count),
        caller: caller.to_owned(),
    };
    let long = "x".repeat(1_000);
    let max = instance.service.limits().count_max;
    for (ask, code, why, says) in [
        (ask("nowhere", 1, ""), Code::NotFound, "unknown_space", "nowhere"),
        (ask("", 1, ""), Code::InvalidArgument, "bad_body", "space"),
        (ask("default", 0, ""), Code::InvalidArgument, "bad_count", "1"),
        (ask("default", max + 1, ""), Code::InvalidArgument, "bad_count", "1"),
        (ask("default", u32::MAX, ""), Code::InvalidArgument, "bad_count", "1"),
        (ask("default", 1, &long), Code::InvalidArgument, "bad_caller", "caller"),
        (ask("default", 1, "a\nb"), Code::InvalidArgument, "bad_caller", "caller"),
        (ask("urls", 1, ""), Code::FailedPrecondition, "wrong_kind", "urls"),
        (ask("pool", 1, ""), Code::FailedPrecondition, "exhausted", "pool"),
    ] {
        let answer = loop {
            match client.take(ask.clone()).await {
                Err(status) if super::reason(&status) == "no_keys_ready" => {}
                answer => break answer,
            }
        };
        is_problem(answer, code, why, says);
    }
}

#[tokio::test]
async fn a_call_ends_at_its_deadline() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    let ask = TakeRequest { space: "default".to_owned(), ..Default::default() };
    // tonic's client would not wait for the server to say so.
    let sender = malformed::connect(instance.address).await;
    let mut sender = sender.ready().await.unwrap();
    let mut request = malformed::request("/keymill.v1.Keymill/GetSpace");
    request.headers_mut().insert("grpc-timeout", "0n".parse().unwrap());
    let (late, mut body) = sender.send_request(request, false).unwrap();
    body.send_data(malformed::framed(b"\x0a\x07default"), true).unwrap();
    assert_eq!(late.await.unwrap().headers()["grpc-status"], "4");
    // One that is far away, or that cannot be read, changes nothing.
    for timeout in ["99999999H", "soon", "1"] {
        take(&mut client, "default", 1).await.unwrap();
        let mut request = Request::new(ask.clone());
        request.metadata_mut().insert("grpc-timeout", timeout.parse().unwrap());
        assert_eq!(client.take(request).await.unwrap().into_inner().keys.len(), 1, "{timeout}");
    }
}

#[tokio::test]
async fn calls_are_counted_apart_from_those_over_http() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    take(&mut client, "default", 1).await.unwrap();
    client.get_space(v1::GetSpaceRequest { space: "nowhere".to_owned() }).await.unwrap_err();
    let metrics = instance.call("GET", "/metrics").await.body;
    let count = |labels: &str| {
        let line = format!("keymill_requests_total{{{labels}}} ");
        let found = metrics.lines().find_map(|it| it.strip_prefix(&line)).unwrap_or_default();
        found.parse::<u64>().unwrap_or_else(|_| panic!("{line}: {metrics}"))
    };
    assert!(count("protocol=\"grpc\",route=\"take\",status=\"2xx\"") >= 1);
    assert_eq!(count("protocol=\"grpc\",route=\"other\",status=\"4xx\""), 1);
    assert_eq!(count("protocol=\"http2\",route=\"take\",status=\"2xx\""), 0);
}

/// A take, repeated while keys are on their way into memory or into the pool.
async fn settled(client: &mut super::Client, space: &str, count: u32) -> Vec<String> {
    loop {
        match take(client, space, count).await {
            Ok(keys) => return keys,
            Err(status) => {
                assert_eq!(status.code(), Code::Unavailable, "{space}: {status:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}
