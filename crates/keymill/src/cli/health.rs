//! `keymill health`: whether a server is ready, or only alive, as an exit code for health checks.
//!
//! A container's health check runs it beside the server, with the same settings, and finds the server by them; with
//! `--server` it asks any other. It opens no store and needs no token. Beside the server, its certificate is not
//! verified: it may be for any name, nothing secret is sent, and the answer is a yes or a no.

mod unverified;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::greeting::openable;
use super::site::Server;
use crate::config::{Flags, LocalServer, Remote};
use crate::server::Endpoint;

/// How long a server may take to answer.
const TIME_MAX: Duration = Duration::from_secs(3);
/// The most that is read of an answer.
const ANSWER_MAX: u64 = 1 << 20;

pub(super) const EXAMPLES: &str = "\
The server is the one that the settings file and the KEYMILL_* variables describe, on this machine: set
its address there rather than with `serve --listen`, or name it with --server. The exit code is 0 if it
is ready, and 1 if it is not or does not answer within 3 seconds. Problems that do not prevent it from
serving are printed to standard error.

Examples:
  keymill health
  keymill health --live
  keymill health --server https://keys.example";

/// An answer, whatever its status.
struct Answer {
    status: u16,
    body: Vec<u8>,
}

/// What `/readyz` says.
#[derive(Debug, Deserialize)]
struct Readiness {
    problems: Vec<Problem>,
}

#[derive(Debug, Deserialize)]
struct Problem {
    code: String,
    space: Option<String>,
    detail: String,
}

pub(super) async fn run(flags: &Flags, is_live: bool) -> anyhow::Result<ExitCode> {
    let path = if is_live { "/healthz" } else { "/readyz" };
    let asking = match Remote::load(flags)? {
        Some(remote) => timeout(TIME_MAX, at_server(&Server::new(&remote)?, path)).await,
        None => timeout(TIME_MAX, beside(&LocalServer::load(flags)?, path)).await,
    };
    let asked = asking.unwrap_or_else(|_| bail!("the server did not answer within {TIME_MAX:?}"));
    // Whatever keeps it from answering, it is not healthy; other exit codes would mean something else to Docker.
    Ok(match asked.and_then(|answer| judge(&answer, path)) {
        Ok(()) => {
            println!("{}", if is_live { "alive" } else { "ready" });
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("keymill: {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// Tells the problems of an answer; an error if the server is not well.
fn judge(answer: &Answer, path: &str) -> anyhow::Result<()> {
    let problems = match serde_json::from_slice::<Readiness>(&answer.body) {
        Ok(readiness) => readiness.problems,
        Err(_) => Vec::new(),
    };
    let problems = problems.iter().map(|Problem { code, space, detail }| {
        let of = space.as_ref().map(|space| format!(" of `{space}`")).unwrap_or_default();
        format!("{code}{of}: {detail}")
    });
    match answer.status {
        200 => {
            problems.for_each(|problem| note!("keymill: {problem}"));
            Ok(())
        }
        503 => {
            let problems: Vec<String> = problems.collect();
            if problems.is_empty() {
                bail!("the server is not ready; its log says why");
            }
            bail!("the server is not ready: {}", problems.join("; "))
        }
        status => bail!("{path} was answered with status {status}; is this keymill?"),
    }
}

/// Asks a server by its URL.
async fn at_server(server: &Server, path: &str) -> anyhow::Result<Answer> {
    let (status, body) = server.get(path).await?;
    Ok(Answer { status, body: body.into() })
}

/// Asks the server of these settings, on this machine.
async fn beside(server: &LocalServer, path: &str) -> anyhow::Result<Answer> {
    let asked = match &server.endpoint {
        Endpoint::Unix(socket) => ask(UnixStream::connect(socket).await, path).await,
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect(openable(*address)).await;
            match (stream, server.is_tls) {
                (Ok(stream), true) => ask(unverified::connect(stream).await, path).await,
                (stream, _) => ask(stream, path).await,
            }
        }
    };
    asked.with_context(|| format!("the server at {} cannot be asked", server.endpoint))
}

/// Sends one request and reads the answer to its end.
async fn ask<S>(stream: io::Result<S>, path: &str) -> anyhow::Result<Answer>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut stream = stream?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut text = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut text).await?;
    read(&text).context("what it answers is not HTTP")
}

/// An answer of HTTP/1.1, which keymill never sends in chunks here.
fn read(text: &[u8]) -> Option<Answer> {
    let end = text.windows(4).position(|it| it == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&text[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()?;
    Some(Answer { status, body: text[end + 4..].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_whether_the_server_is_well() {
        let check = |text: &str, says: Option<&str>| {
            let answer = read(text.as_bytes()).unwrap();
            let told = judge(&answer, "/readyz").map_err(|error| error.to_string());
            match says {
                None => assert_eq!(told, Ok(()), "{text}"),
                Some(says) => assert!(told.unwrap_err().contains(says), "{text}"),
            }
        };
        let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\r\n";
        let problem = r#"{"code":"no_worker","space":"ids","detail":"all are held"}"#;
        check("HTTP/1.1 200 OK\r\n\r\nok\n", None);
        check(&format!("HTTP/1.1 200 OK\r\n\r\n{{\"ready\":true,\"problems\":[{problem}]}}"), None);
        check(
            &format!("{head}{{\"ready\":false,\"problems\":[{problem}]}}"),
            Some("is not ready: no_worker of `ids`: all are held"),
        );
        check(&format!("{head}{{\"ready\":false,\"problems\":[]}}"), Some("its log says why"));
        check("HTTP/1.1 404 Not Found\r\n\r\n", Some("is this keymill?"));
        assert!(read(b"+PONG\r\n").is_none() && read(b"").is_none());
    }
}
