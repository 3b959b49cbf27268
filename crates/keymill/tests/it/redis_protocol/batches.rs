//! `MULTI`, `EXEC` and `DISCARD`: a pipeline whose answers come as one list.

use super::client::command;
use super::{Server, Value};

const QUEUED: &str = "QUEUED";

#[tokio::test]
async fn a_batch_is_answered_as_one_list_in_its_order() {
    let server = Server::start().await;
    server.warm("default").await;
    for mut client in [server.connect().await, server.connect3().await] {
        let mut sent = command(&["MULTI"]);
        let queued: &[&[&str]] = &[
            &["SPOP", "default"],
            &["SPOP", "default", "2"],
            &["SPOP", "default", "3000"],
            &["SPOP", "nope"],
            &["INCR", "default"],
            &["EXISTS", "default"],
            &["PING"],
        ];
        queued.iter().for_each(|parts| sent.extend(command(parts)));
        sent.extend(command(&["EXEC"]));
        sent.extend(command(&["ECHO", "behind"]));
        client.send(&sent).await;
        assert_eq!(client.next().await, Value::word("OK"));
        for _ in queued {
            assert_eq!(client.next().await, Value::word(QUEUED));
        }
        let Value::Array(answers) = client.next().await else { panic!("a list") };
        assert_eq!(answers.len(), queued.len());
        let counts: Vec<usize> = answers[..3].iter().map(|keys| keys.keys().len()).collect();
        assert_eq!(counts, [1, 2, 3_000]);
        answers[3].is_error("ERR unknown_space");
        answers[4].is_error("WRONGTYPE");
        assert_eq!(answers[5..], [Value::Integer(1), Value::word("PONG")]);
        assert_eq!(client.next().await, Value::bulk("behind"));
    }
}

#[tokio::test]
async fn an_empty_batch_is_an_empty_list_and_a_dropped_one_takes_nothing() {
    let server = Server::start().await;
    server.warm("default").await;
    let mut client = server.connect().await;
    let space = server.instance.service.space("default").await.unwrap();
    assert_eq!(client.ask(&["MULTI"]).await, Value::word("OK"));
    assert_eq!(client.ask(&["EXEC"]).await, Value::Array(vec![]));
    let before = space.at_hand();
    for end in ["DISCARD", "RESET", "QUIT"] {
        let mut client = server.connect().await;
        assert_eq!(client.ask(&["MULTI"]).await, Value::word("OK"));
        assert_eq!(client.ask(&["SPOP", "default"]).await, Value::word(QUEUED));
        let answer = client.ask(&[end]).await;
        assert!(matches!(answer, Value::Word(_)), "{end}: {answer:?}");
        if end != "QUIT" {
            client.ask(&["EXEC"]).await.is_error("ERR EXEC without MULTI");
        }
    }
    assert_eq!(space.at_hand(), before);
}

#[tokio::test]
async fn a_batch_with_a_command_that_is_refused_runs_none() {
    let server = Server::start().await;
    server.warm("default").await;
    let space = server.instance.service.space("default").await.unwrap();
    let before = space.at_hand();
    for (wrong, says) in [
        (&["NOPE"][..], "ERR unknown command 'NOPE'"),
        (&["SPOP"], "ERR wrong number of arguments for 'spop' command"),
        (&["HELLO", "3"], "ERR HELLO is not allowed in a batch"),
        (&["AUTH", "x"], "ERR AUTH is not allowed in a batch"),
    ] {
        let mut client = server.connect().await;
        client.ask(&["MULTI"]).await;
        assert_eq!(client.ask(&["SPOP", "default"]).await, Value::word(QUEUED));
        client.ask(wrong).await.is_error(says);
        assert_eq!(client.ask(&["SPOP", "default"]).await, Value::word(QUEUED));
        client.ask(&["EXEC"]).await.is_error("EXECABORT");
        // And the next one is a new one.
        client.ask(&["MULTI"]).await;
        assert_eq!(client.ask(&["EXEC"]).await, Value::Array(vec![]));
    }
    let mut client = server.connect().await;
    client.ask(&["MULTI"]).await;
    client.ask(&["MULTI"]).await.is_error("ERR MULTI calls can not be nested");
    assert_eq!(client.ask(&["EXEC"]).await, Value::Array(vec![]));
    assert_eq!(space.at_hand(), before);
}

#[tokio::test]
async fn a_batch_is_bounded_in_commands_and_in_bytes() {
    let server = Server::start().await;
    let long = "x".repeat(4_000);
    for (parts, fits) in [(&["PING"][..], 1_024), (&["ECHO", long.as_str()], 8)] {
        let mut client = server.connect().await;
        client.ask(&["MULTI"]).await;
        for number in 0..fits {
            assert_eq!(client.ask(parts).await, Value::word(QUEUED), "{number}");
        }
        client.ask(parts).await.is_error("ERR a batch (MULTI) has at most 1024 commands and 32768");
        client.ask(&["EXEC"]).await.is_error("EXECABORT");
        client.ask(&["MULTI"]).await;
        for _ in 0..fits {
            client.ask(parts).await;
        }
        let Value::Array(answers) = client.ask(&["EXEC"]).await else { panic!("a list") };
        assert_eq!(answers.len(), fits);
    }
}
