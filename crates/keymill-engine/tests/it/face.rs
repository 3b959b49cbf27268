//! keymill as a program embeds it: what is opened, taken, closed and dropped, and what is refused.

use std::collections::HashSet;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keymill_engine::{Error, Keymill, Keyspace, Shape, SpaceSpec, State};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn keys_are_unique_over_close_and_open_and_what_was_not_taken_comes_next() {
    let folder = tempfile::tempdir().unwrap();
    let mut keys = Vec::new();
    for _ in 0..3 {
        let keymill = open(folder.path()).await;
        let links = links(&keymill).await;
        keys.push(links.take().await.unwrap());
        keys.extend(links.take_many(100).await.unwrap());
        // A lease is of a thousand keys: all of them are of the first.
        assert!(ordinal(&links, keys.last().unwrap()).await < 1_000);
        keymill.close().await;
    }
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 303);
}

/// The heartbeat held the instance, and the instance its heartbeat: both ran on for as long as the program.
#[tokio::test]
async fn a_drop_without_close_costs_a_gap_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let dropped = links(&open(folder.path()).await).await;
    let first = dropped.take().await.unwrap();
    drop(dropped);
    let runtime = tokio::runtime::Handle::current().metrics();
    let all_ended = async {
        while runtime.num_alive_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all_ended).await.expect("tasks run on");

    let keymill = open(folder.path()).await;
    let links = links(&keymill).await;
    let second = links.take().await.unwrap();
    assert_ne!(first, second);
    assert!(ordinal(&links, &second).await >= 1_000, "keys of an open lease were handed out");
    assert_eq!(links.explain(&first).await.unwrap().state, State::Leased);
    keymill.close().await;
}

#[tokio::test]
async fn nothing_is_taken_after_close() {
    let folder = tempfile::tempdir().unwrap();
    let keymill = open(folder.path()).await;
    let links = links(&keymill).await;
    let key = links.take().await.unwrap();
    keymill.close().await;
    let refusal = links.take().await.unwrap_err();
    assert!(matches!(refusal, Error::NoKeysReady { .. }), "{refusal}");
    assert_eq!(links.explain(&key).await.unwrap().state, State::Issued);
}

#[tokio::test]
async fn a_take_of_many_keys_crosses_from_lease_to_lease() {
    let folder = tempfile::tempdir().unwrap();
    let keymill = open(folder.path()).await;
    let small = SpaceSpec {
        lease_size_min: Some(1_000),
        lease_size_max: Some(1_000),
        ..SpaceSpec::default()
    };
    let links = keymill.keyspace("links").settings(small).ensure().await.unwrap();
    let mut keys = links.take_many(10).await.unwrap();
    keys.extend(links.take_many(2_500).await.unwrap());
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 2_510);
    assert_ne!(lease(&links, &keys[10]).await, lease(&links, &keys[2_509]).await);
    for wrong in [0, 100_001] {
        let refusal = links.take_many(wrong).await.unwrap_err();
        assert!(matches!(refusal, Error::BadCount { max: 100_000 }), "{refusal}");
    }
    keymill.close().await;
}

#[tokio::test]
async fn without_a_heartbeat_a_take_leases_exactly_what_it_hands_out() {
    let folder = tempfile::tempdir().unwrap();
    let once = || Keymill::builder(&url(folder.path())).without_heartbeat().open();
    let mut keys = Vec::new();
    for _ in 0..3 {
        let links = links(&once().await.unwrap()).await;
        keys.push(links.take().await.unwrap());
        keys.extend(links.take_many(9).await.unwrap());
        // Dropped without close, and yet there is no gap but for keys that the blocklist matches.
        assert!(ordinal(&links, keys.last().unwrap()).await < 100);
    }
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 30);
}

#[tokio::test]
async fn a_key_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let keymill = open(folder.path()).await;
    let shape = Shape::base32(8).prefix("ord_").group(4).with_check();
    let orders = keymill.keyspace("orders").shape(shape).ensure().await.unwrap();
    let key = orders.take().await.unwrap();
    assert!(key.starts_with("ord_") && key.len() == "ord_2HQX-9DNV-C".len(), "{key}");
    let about = orders.explain(&key.to_lowercase()).await.unwrap();
    assert_eq!((about.key.as_deref(), about.state), (Some(key.as_str()), State::Leased));
    assert_eq!(about.lease.unwrap().holder.pid, std::process::id());
    assert_eq!(orders.explain("ord_?").await.unwrap().state, State::Invalid);
    keymill.close().await;
}

#[tokio::test]
async fn the_shape_of_a_keyspace_is_permanent() {
    let folder = tempfile::tempdir().unwrap();
    let keymill = open(folder.path()).await;
    let unknown = keymill.open_keyspace("links").await.unwrap_err();
    assert!(matches!(unknown, Error::UnknownSpace(_)), "{unknown}");
    let digits = keymill.keyspace("links").shape(Shape::decimal(9)).ensure().await.unwrap();
    let refusal = keymill.keyspace("links").shape(Shape::base62(7)).ensure().await.unwrap_err();
    assert!(matches!(refusal, Error::DifferentDefinition { .. }), "{refusal}");
    let as_it_is = keymill.open_keyspace("links").await.unwrap();
    assert_eq!((digits.name(), as_it_is.take().await.unwrap().len()), ("links", 9));
    let wrong = keymill.keyspace("long").shape(Shape::base58(21)).ensure().await.unwrap_err();
    assert!(wrong.to_string().contains("at most 20"), "{wrong}");
    keymill.close().await;
}

#[tokio::test]
async fn a_secret_of_the_program_needs_a_store_that_has_been_used_or_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(folder.path());
    let builder = || Keymill::builder(&url).secret(SECRET);
    let refusal = builder().open().await.unwrap_err().to_string();
    assert!(
        refusal.contains("would repeat keys") && refusal.contains("`new_store()`"),
        "{refusal}"
    );
    let keymill = builder().new_store().open().await.unwrap();
    // The schema is there, and no keyspace: it may have been emptied.
    let refusal = builder().open().await.unwrap_err().to_string();
    assert!(refusal.contains("`new_store()`"), "{refusal}");
    links(&keymill).await;
    builder().open().await.unwrap();
    let short = Keymill::builder(&url).secret("hunter2").open().await.unwrap_err().to_string();
    assert!(short.contains("at least 32 characters"), "{short}");
}

#[tokio::test]
async fn the_data_directory_of_a_sqlite_file_is_its_folder_unless_another_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let (beside, given) = (folder.path().join("a"), folder.path().join("b"));
    let keymill = open(&beside).await;
    links(&keymill).await;
    assert!(beside.join("floors.log").exists());
    let keymill = Keymill::builder(&url(&beside)).data_dir(&given).open().await.unwrap();
    links(&keymill).await.take().await.unwrap();
    assert!(given.join("floors.log").exists());
}

#[tokio::test]
async fn a_store_on_the_network_needs_a_data_directory() {
    // Nothing listens there, and nothing is asked.
    let refusal = Keymill::open("postgres://127.0.0.1:1/keymill").await.unwrap_err().to_string();
    assert!(refusal.contains("needs a data directory"), "{refusal}");
    assert!(refusal.contains("`Keymill::builder(url).data_dir(folder)`"), "{refusal}");
}

#[tokio::test]
async fn an_unsafe_store_is_refused_with_the_reason_unless_it_is_allowed() {
    let Some((_server, url)) = unsafe_redis() else { return };
    let folder = tempfile::tempdir().unwrap();
    let builder = || Keymill::builder(&url).data_dir(folder.path());
    let refusal = builder().open().await.unwrap_err().to_string();
    for said in ["not safe to lease from", "appendonly", "`allow_unsafe_store()`"] {
        assert!(refusal.contains(said), "{said} is not in {refusal}");
    }
    let keymill = builder().allow_unsafe_store().open().await.unwrap();
    assert_eq!(links(&keymill).await.take().await.unwrap().len(), 7);
    keymill.close().await;
}

fn url(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("keys.db").display())
}

async fn open(folder: &Path) -> Keymill {
    Keymill::open(&url(folder)).await.unwrap()
}

async fn links(keymill: &Keymill) -> Keyspace {
    keymill.keyspace("links").shape(Shape::base62(7)).ensure().await.unwrap()
}

async fn ordinal(keyspace: &Keyspace, key: &str) -> u64 {
    keyspace.explain(key).await.unwrap().ordinal.unwrap()
}

async fn lease(keyspace: &Keyspace, key: &str) -> u64 {
    keyspace.explain(key).await.unwrap().lease.unwrap().lease
}

/// A Redis that writes nothing to disk, as long as the first part lives.
fn unsafe_redis() -> Option<(Running, String)> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
    let Ok(started) = command.arg(port.to_string()).stdout(Stdio::null()).spawn() else {
        let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!in_ci, "there is no redis-server, and CI must test on every store");
        eprintln!("\n*** NOT TESTED: there is no redis-server ***\n");
        return None;
    };
    let server = Running(started);
    for _ in 0..3_000 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Some((server, format!("redis://127.0.0.1:{port}/0")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("redis-server does not answer");
}

/// A server that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
