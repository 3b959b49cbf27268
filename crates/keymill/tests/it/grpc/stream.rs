//! `TakeStream`: keys for as much credit as there is, and no more.

use std::collections::HashSet;
use std::time::Duration;

use keymill_proto::v1::{self, Kind, TakeStreamRequest};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming};

use super::{Client, Instance, SOON, client, ensure, is_problem, of_kind, take};

/// Long enough for what the server would send, if it sent anything.
pub(super) const A_WHILE: Duration = Duration::from_millis(300);

/// A stream, as its client holds it.
pub(super) struct Keys {
    pub(super) credit: mpsc::Sender<TakeStreamRequest>,
    batches: Streaming<v1::TakeStreamResponse>,
    /// Lengths of keys, where they changed.
    pub(super) lengths: Vec<usize>,
}

impl Keys {
    /// Begins a stream, with a token where one is given.
    pub(super) async fn of(
        client: &mut Client,
        space: &str,
        credit: u32,
        token: Option<&str>,
    ) -> Keys {
        let first = TakeStreamRequest { space: space.to_owned(), credit, ..Default::default() };
        Keys::begin(client, first, token).await
    }

    pub(super) async fn begin(
        client: &mut Client,
        first: TakeStreamRequest,
        token: Option<&str>,
    ) -> Keys {
        let (sender, messages) = mpsc::channel(16);
        sender.send(first).await.unwrap();
        let messages = ReceiverStream::new(messages);
        let request = match token {
            Some(token) => super::bearing(token, messages),
            None => Request::new(messages),
        };
        let batches = client.take_stream(request).await.unwrap().into_inner();
        Keys { credit: sender, batches, lengths: Vec::new() }
    }

    pub(super) async fn give(&self, credit: u32) {
        self.credit.send(TakeStreamRequest { credit, ..Default::default() }).await.unwrap();
    }

    /// The keys of the next batch; `None` behind the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<String>>, Status> {
        let next = timeout(SOON, self.batches.message()).await.expect("something comes")?;
        Ok(next.map(|batch| {
            if batch.keys.is_empty() {
                return Vec::new();
            }
            let len = batch.key_length as usize;
            assert_eq!(batch.keys.len() % len, 0);
            if self.lengths.last() != Some(&len) {
                self.lengths.push(len);
            }
            let key = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
            batch.keys.chunks(len).map(key).collect()
        }))
    }

    /// So many keys, in as many batches as they come.
    pub(super) async fn take(&mut self, count: usize) -> Vec<String> {
        let mut keys = Vec::new();
        while keys.len() < count {
            keys.extend(self.next().await.unwrap().expect("there is credit for more"));
        }
        assert_eq!(keys.len(), count, "as many as there was credit for");
        keys
    }

    /// Asserts that nothing comes for a while.
    pub(super) async fn is_quiet(&mut self) {
        let next = timeout(A_WHILE, self.batches.message()).await;
        assert!(next.is_err(), "{next:?}");
    }

    /// What ends the stream, behind any number of batches.
    pub(super) async fn end(&mut self) -> Result<(), Status> {
        while self.next().await?.is_some() {}
        Ok(())
    }
}

#[tokio::test]
async fn takes_and_batches_say_when_their_first_key_expires_where_keys_do() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    for (space, ttl_seconds) in [("coupons", Some(600)), ("endless", None)] {
        let settings = v1::SpaceSettings { ttl_seconds, ..of_kind(Kind::Pooled) };
        ensure(&mut client, space, settings).await;
        let fill = keymill_engine::operations::Filling::Add(1_000);
        instance.service.fill_pool(space, fill, |_, _| {}).await.unwrap();
        take(&mut client, space, 1).await.unwrap();
        let ask = v1::TakeRequest { space: space.to_owned(), count: Some(2), ..Default::default() };
        let taken = client.take(ask).await.unwrap().into_inner();
        let mut stream = Keys::of(&mut client, space, 10, None).await;
        let batch = timeout(SOON, stream.batches.message()).await.expect("one comes");
        let batch = batch.unwrap().unwrap();
        assert!(!batch.keys.is_empty());
        let now = jiff::Timestamp::now().as_second();
        for expires_at in [taken.expires_at, batch.expires_at] {
            let lasts = expires_at.map(|at| at.seconds - now);
            assert_eq!(lasts.is_some(), ttl_seconds.is_some(), "{space}");
            assert!(lasts.is_none_or(|lasts| (540..=600).contains(&lasts)), "{lasts:?}");
        }
    }
}

#[tokio::test]
async fn as_many_keys_are_sent_as_there_is_credit_for() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    let mut seen: HashSet<String> =
        take(&mut client, "default", 10).await.unwrap().into_iter().collect();
    let mut keys = Keys::of(&mut client, "default", 5, None).await;
    seen.extend(keys.take(5).await);
    keys.is_quiet().await;
    keys.give(0).await;
    keys.is_quiet().await;
    for credit in [1, 7, 3_000] {
        keys.give(credit).await;
        seen.extend(keys.take(credit as usize).await);
    }
    // It adds up.
    for _ in 0..4 {
        keys.give(2_500).await;
    }
    seen.extend(keys.take(10_000).await);
    keys.is_quiet().await;
    seen.extend(take(&mut client, "default", 10).await.unwrap());
    assert_eq!(seen.len(), 10 + 5 + 3_008 + 10_000 + 10, "no key twice");
    assert!(seen.iter().all(|key| key.len() == 7));
}

#[tokio::test]
async fn a_client_that_closes_its_side_gets_what_it_has_credit_for() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    take(&mut client, "default", 1).await.unwrap();
    let keys = Keys::of(&mut client, "default", 0, None).await;
    keys.give(20_000).await;
    let Keys { credit, batches, lengths } = keys;
    drop(credit);
    let (sender, _) = mpsc::channel(1);
    let mut keys = Keys { credit: sender, batches, lengths };
    assert_eq!(keys.take(20_000).await.len(), 20_000);
    assert!(keys.next().await.unwrap().is_none(), "and the status OK");
}

#[tokio::test]
async fn streams_of_every_kind_have_no_key_twice() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    let noted = v1::SpaceSettings { audit: Some(v1::Audit::Key.into()), ..Default::default() };
    let pool = v1::SpaceSettings { low_water: Some(4_000), ..of_kind(Kind::Pooled) };
    for (space, settings) in [
        ("ids", of_kind(Kind::Snowflake)),
        ("uuids", of_kind(Kind::Uuid)),
        ("noted", noted),
        ("pool", pool),
    ] {
        ensure(&mut client, space, settings).await;
        // So that its first keys are there.
        while take(&mut client, space, 1).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut streams = Vec::new();
        for _ in 0..2 {
            streams.push(Keys::of(&mut client, space, 1_500, None).await);
        }
        let mut seen = HashSet::new();
        for keys in &mut streams {
            seen.extend(keys.take(1_500).await);
        }
        assert_eq!(seen.len(), 3_000, "{space}");
    }
    let used = instance.call("GET", "/v1/spaces/noted/used?limit=1000").await.json();
    assert_eq!(used["used"].as_array().unwrap().len(), 1_000, "what was sent is on record");
}

#[tokio::test]
async fn the_caller_of_a_stream_is_on_record_with_every_key() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    let noted = v1::SpaceSettings { audit: Some(v1::Audit::Key.into()), ..Default::default() };
    ensure(&mut client, "noted", noted).await;
    take(&mut client, "noted", 1).await.unwrap();
    let first =
        TakeStreamRequest { space: "noted".to_owned(), caller: "cache-1".to_owned(), credit: 30 };
    let mut keys = Keys::begin(&mut client, first, None).await;
    let taken: HashSet<String> = keys.take(30).await.into_iter().collect();
    let path = "/v1/spaces/noted/used?limit=1000&caller=cache-1";
    let used = instance.call("GET", path).await.json();
    let used: HashSet<String> = used["used"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["key"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(used, taken);
}

#[tokio::test]
async fn a_batch_has_keys_of_one_length_also_where_they_get_longer() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    let few = v1::SpaceSettings {
        alphabet: Some("decimal".to_owned()),
        length: Some(1),
        blocklist: Some(false),
        ..of_kind(Kind::Sequential)
    };
    ensure(&mut client, "few", few).await;
    instance.service.grow("few", 3).await.unwrap();
    take(&mut client, "few", 1).await.unwrap();
    let mut keys = Keys::of(&mut client, "few", 20, None).await;
    let taken = keys.take(20).await;
    let expected = (1..10).map(|number| number.to_string());
    let expected = expected.chain((0..11).map(|number| format!("{number:03}")));
    assert_eq!(taken, expected.collect::<Vec<_>>());
    assert_eq!(keys.lengths, [1, 3]);

    let plain = v1::SpaceSettings { length: Some(0), ..of_kind(Kind::Sequential) };
    ensure(&mut client, "plain", plain).await;
    take(&mut client, "plain", 1).await.unwrap();
    let mut keys = Keys::of(&mut client, "plain", 1_200, None).await;
    let expected: Vec<String> = (1..=1_200).map(|number| number.to_string()).collect();
    assert_eq!(keys.take(1_200).await, expected);
    assert_eq!(keys.lengths, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_pool_with_keys_of_many_lengths_is_streamed_too() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    ensure(&mut client, "pool", of_kind(Kind::Pooled)).await;
    let imported: HashSet<String> =
        (0..500).map(|number| format!("m{number}y{}", "7".repeat(number % 9))).collect();
    let lines: String = imported.iter().map(|key| format!("{key}\n")).collect();
    let label = "content-type: text/plain\r\n";
    for lines in lines.split_inclusive('\n').collect::<Vec<_>>().chunks(250) {
        let answer = instance.send("POST", "/v1/spaces/pool/pool", label, &lines.concat()).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let mut seen: HashSet<String> =
        take(&mut client, "pool", 1).await.unwrap().into_iter().collect();
    let mut keys = Keys::of(&mut client, "pool", 499, None).await;
    seen.extend(keys.take(499).await);
    assert_eq!(seen, imported);
    keys.give(1).await;
    is_problem(keys.end().await, Code::FailedPrecondition, "exhausted", "pool");
}
