//! The target of a bench: servers, the protocol that they are asked in, and for what.

use std::time::Duration;

use clap::ValueEnum;
use keymill_client::raw::RawStream;
use keymill_client::{Client, Error as ClientError};
use serde_json::json;
use zeroize::Zeroizing;

use super::fault::Fault;
#[cfg(feature = "grpc")]
use super::grpc::GrpcLink;
use super::http::{HttpLink, Requests};
use super::redis::RedisLink;
use super::told::{Asked, Told};
use crate::cli::site::refusal::Refusal;
use crate::config::{Remote, WrongUsage};

/// How long a connection may take to open.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// How servers are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Protocol {
    /// HTTP, one key for each request
    Http,
    /// HTTP, many keys for each request
    HttpBatch,
    /// gRPC
    Grpc,
    /// The Redis protocol: SPOP
    Redis,
}

/// Whom to ask for what. Neither this nor [`Server`] can be shown by `Debug`, because they have the token.
pub(super) struct Target {
    pub(super) protocol: Protocol,
    pub(super) space: String,
    /// How many keys each request asks for.
    pub(super) count: u32,
    /// How many requests are sent together.
    pub(super) pipeline: u32,
    pub(super) servers: Vec<Server>,
    /// How long a request may take.
    pub(super) time_max: Duration,
    token: Option<Zeroizing<String>>,
}

/// One server.
pub(super) struct Server {
    /// As it was named.
    pub(super) name: String,
    /// Opens connections, and for gRPC speaks on them.
    pub(super) client: Client,
    pub(super) requests: Requests,
}

/// A connection to a server, in one of the protocols.
#[derive(Debug)]
pub(super) enum Link {
    Http(HttpLink),
    #[cfg(feature = "grpc")]
    Grpc(GrpcLink),
    Redis(RedisLink),
}

/// What to ask for, as it was typed.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) protocol: Option<Protocol>,
    pub(super) space: String,
    pub(super) count: Option<u32>,
    pub(super) pipeline: u32,
    pub(super) time_max: Duration,
}

impl Protocol {
    /// Its name, as it is typed.
    pub(super) fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::HttpBatch => "http-batch",
            Protocol::Grpc => "grpc",
            Protocol::Redis => "redis",
        }
    }

    /// The one that URLs are of, where none was named.
    fn of_urls(urls: &[String]) -> Protocol {
        match urls.iter().any(|url| is_redis(url)) {
            true => Protocol::Redis,
            false => Protocol::Http,
        }
    }
}

fn is_redis(url: &str) -> bool {
    url.starts_with("redis://") || url.starts_with("rediss://")
}

impl Target {
    pub(super) fn new(remote: &Remote, asking: Asking) -> anyhow::Result<Target> {
        let Asking { protocol, space, count, pipeline, time_max } = asking;
        let protocol = protocol.unwrap_or_else(|| Protocol::of_urls(&remote.servers));
        let usual = if protocol == Protocol::HttpBatch { 1_000 } else { 1 };
        let count = count.unwrap_or(usual);
        check(&remote.servers, protocol, pipeline)?;
        let token = remote.token.clone();
        let server = |url: &String| {
            let client = client(remote, url, protocol, time_max)?;
            let token = token.as_ref().map(|token| token.as_str());
            let requests = Requests::new(client.raw_origin(), &space, count, token);
            Ok(Server { name: url.clone(), client, requests })
        };
        let servers = remote.servers.iter().map(server).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Target { protocol, space, count, pipeline, servers, time_max, token })
    }

    /// Makes sure that every server can be reached, so that a URL that was mistyped shows at once. No key is taken.
    pub(super) async fn reach(&self) -> anyhow::Result<()> {
        let protocol: &[u8] = match self.protocol {
            Protocol::Http | Protocol::HttpBatch => b"http/1.1",
            Protocol::Grpc => b"h2",
            Protocol::Redis => b"",
        };
        for server in &self.servers {
            let reached = server.dial(protocol).await;
            reached.map_err(|error| Refusal::new(error, None, self.has_token()))?;
        }
        Ok(())
    }

    /// Whether requests have a token.
    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The server of a user. Users are spread over all of them in turn.
    pub(super) fn server_of(&self, user: usize) -> &Server {
        &self.servers[user % self.servers.len()]
    }

    /// Opens a connection.
    pub(super) async fn connect(&self, server: &Server) -> Result<Link, Fault> {
        match self.protocol {
            Protocol::Http | Protocol::HttpBatch => {
                Ok(Link::Http(HttpLink::connect(server).await?))
            }
            #[cfg(feature = "grpc")]
            Protocol::Grpc => Ok(Link::Grpc(GrpcLink::new(server, &self.space))),
            #[cfg(not(feature = "grpc"))]
            Protocol::Grpc => unreachable!("it was refused with the arguments"),
            Protocol::Redis => {
                let token = self.token.as_ref().map(|token| token.as_str());
                Ok(Link::Redis(RedisLink::connect(server, token).await?))
            }
        }
    }

    /// Sends requests together and reads their answers. After an error, the connection is of no more use.
    pub(super) async fn round(
        &self,
        server: &Server,
        link: &mut Link,
        asked: Asked,
        told: &mut Told<'_>,
    ) -> Result<(), Fault> {
        match link {
            Link::Http(link) => link.round(server, asked, told).await,
            #[cfg(feature = "grpc")]
            Link::Grpc(link) => link.round(asked, told).await,
            Link::Redis(link) => link.round(&self.space, asked, told).await,
        }
    }
}

impl Server {
    /// Opens a connection, which TLS calls one of this protocol.
    pub(super) async fn dial(&self, protocol: &[u8]) -> Result<RawStream, ClientError> {
        let error = match self.client.dial_raw(protocol).await {
            Err(error) if is_redis(&self.name) => error,
            dialed => return dialed,
        };
        // The client knows the server by another URL than people do.
        let detail = error.detail().replacen(&address_of(&self.name), &self.name, 1);
        let problem = json!({"code": error.code(), "detail": detail}).to_string();
        Err(ClientError::from_answer(503, None, problem.as_bytes()))
    }
}

impl Link {
    /// Whether another request can be sent.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Link::Http(link) => link.is_open(),
            #[cfg(feature = "grpc")]
            Link::Grpc(_) => true,
            Link::Redis(link) => link.is_open(),
        }
    }
}

/// The URL by which the client opens a connection, which it does in the same way for every protocol.
fn address_of(url: &str) -> String {
    match url.strip_prefix("redis") {
        Some(rest) if is_redis(url) => format!("http{rest}"),
        _ => url.to_owned(),
    }
}

/// Refuses what does not go together.
fn check(urls: &[String], protocol: Protocol, pipeline: u32) -> anyhow::Result<()> {
    let wrong = |problem: String| Err(WrongUsage(problem).into());
    let is_redis_asked = protocol == Protocol::Redis;
    let odd = urls.iter().find(|url| !url.starts_with("unix:") && is_redis(url) != is_redis_asked);
    match odd {
        Some(url) if is_redis_asked => {
            return wrong(format!(
                "`{url}` cannot be asked in the Redis protocol; name the address of redis_listen, as \
                 redis://host:port, rediss://host:port or unix:/path"
            ));
        }
        Some(url) => {
            let name = protocol.name();
            return wrong(format!("`{url}` cannot be asked over {name}; leave out --protocol"));
        }
        None => {}
    }
    if pipeline > 1 && !is_redis_asked {
        return wrong(
            "--pipeline is for the Redis protocol; use --count or --connections".to_owned(),
        );
    }
    if protocol == Protocol::Grpc && cfg!(not(feature = "grpc")) {
        return wrong("this build of keymill has no gRPC; use --protocol http".to_owned());
    }
    Ok(())
}

/// A client of one server, which tries each request once.
fn client(
    remote: &Remote,
    url: &str,
    protocol: Protocol,
    time_max: Duration,
) -> anyhow::Result<Client> {
    let mut builder = Client::builder()
        .servers([address_of(url)])
        .single_attempt()
        .deadline(time_max)
        .attempt_timeout(time_max)
        .connect_timeout(CONNECT_TIME_MAX.min(time_max));
    if let Some(token) = &remote.token {
        builder = builder.token(token.as_str());
    }
    if let Some(file) = &remote.ca_file {
        builder = builder.ca_file(file);
    }
    #[cfg(feature = "grpc")]
    if protocol == Protocol::Grpc {
        builder = builder.grpc();
    }
    #[cfg(not(feature = "grpc"))]
    let _ = protocol;
    builder.build().map_err(|error| Refusal::new(error, None, remote.token.is_some()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_follows_from_the_urls_and_must_fit_them() {
        let urls = |urls: &[&str]| urls.iter().map(ToString::to_string).collect::<Vec<_>>();
        let [http, redis] = [urls(&["http://a:1"]), urls(&["redis://a:2", "rediss://b"])];
        let unix = urls(&["unix:/run/k.sock"]);
        assert_eq!(Protocol::of_urls(&http), Protocol::Http);
        assert_eq!(Protocol::of_urls(&redis), Protocol::Redis);
        for (urls, protocol, pipeline, says) in [
            (&http, Protocol::Http, 1, None),
            (&unix, Protocol::Http, 1, None),
            (&unix, Protocol::Redis, 9, None),
            (&redis, Protocol::Redis, 9, None),
            (&http, Protocol::Redis, 1, Some("redis_listen")),
            (&redis, Protocol::Http, 1, Some("leave out --protocol")),
            (&http, Protocol::Http, 2, Some("--pipeline")),
        ] {
            let found = check(urls, protocol, pipeline).err().map(|error| error.to_string());
            match (found, says) {
                (None, None) => {}
                (Some(found), Some(says)) => assert!(found.contains(says), "{found}"),
                (found, says) => panic!("{urls:?}: {found:?} and not {says:?}"),
            }
        }
    }
}
