//! The orderly stop: commands that were sent are answered, and then the connection is closed.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::client::{PATIENCE, command};
use super::{Server, Value};

#[tokio::test]
async fn a_pipeline_that_has_arrived_is_answered_and_then_the_connection_ends() {
    let mut server = Server::start().await;
    server.warm("default").await;
    let mut clients = Vec::new();
    for _ in 0..16 {
        let mut client = server.connect().await;
        clients.push(tokio::spawn(async move {
            let mut answered = 0_u32;
            loop {
                // Where it is closed already, that shows when it reads.
                let _ = client.stream.write_all(&command(&["SPOP", "default"])).await;
                match client.next_or_end().await {
                    Some(Value::Bulk(_)) => answered += 1,
                    Some(Value::Error(error)) if error.starts_with("TRYAGAIN") => {}
                    Some(other) => panic!("{other:?}"),
                    None => return answered,
                }
            }
        }));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.instance.stop.take().unwrap().send(()).unwrap();
    for client in clients {
        let answered = timeout(PATIENCE, client).await.expect("it ends").unwrap();
        assert!(answered > 0);
    }
    let ended = timeout(Duration::from_secs(8), &mut server.instance.ended).await;
    ended.expect("all connections were closed").unwrap();
}

#[tokio::test]
async fn an_idle_connection_has_time_for_a_command_that_is_on_its_way() {
    let mut server = Server::start().await;
    let mut client = server.connect().await;
    assert_eq!(client.ask(&["PING"]).await, Value::word("PONG"));
    let mut silent = server.connect().await;
    server.instance.stop.take().unwrap().send(()).unwrap();
    while tokio::net::TcpStream::connect(server.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(client.ask(&["PING"]).await, Value::word("PONG"));
    assert_eq!(client.next_or_end().await, None, "closed behind the answer");
    assert_eq!(silent.next_or_end().await, None, "closed when the time for closing is over");
    let ended = timeout(Duration::from_secs(8), &mut server.instance.ended).await;
    ended.expect("all connections were closed").unwrap();
}

#[tokio::test]
async fn a_large_answer_under_way_is_read_to_its_end() {
    let mut server = Server::start().await;
    server.warm("default").await;
    let mut client = server.connect().await;
    client.send(&command(&["SPOP", "default", "100000"])).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.instance.stop.take().unwrap().send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    match client.next().await {
        // A first lease of so many may take longer than a take waits.
        Value::Error(error) => assert!(error.starts_with("TRYAGAIN"), "{error}"),
        keys => assert_eq!(keys.keys().len(), 100_000),
    }
    assert_eq!(client.next_or_end().await, None);
}
