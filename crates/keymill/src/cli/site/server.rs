//! A server: how it is asked, and how its answers are read.
//!
//! The other files here build requests with [`Server::ask`] and read answers as views. Which server is asked, whether
//! again, and over which connection, is the client's concern.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use keymill_client::raw::{HeaderValue, Method, RawAnswer, RawBody, RawRequest, header};
use keymill_client::{Client, Error as ClientError};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::refusal::Refusal;
use crate::config::Remote;

/// How long to look for a server that answers. A person waits for the command.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// How long a server that was reached may take to answer. Some requests change many rows.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(600);
/// The same for a request that sends a file. A server ends an import after an hour.
const IMPORT_TIME_MAX: Duration = Duration::from_secs(2 * 3_600);

/// What need not be encoded in a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A server, or several on one store.
#[derive(Debug)]
pub(in crate::cli) struct Server {
    client: Client,
    has_token: bool,
}

/// A request that is not sent yet.
pub(super) struct Ask<'a> {
    server: &'a Server,
    request: RawRequest,
    space: Option<&'a str>,
}

impl Server {
    /// Prepares to ask a server. Nothing is sent.
    pub(in crate::cli) fn new(remote: &Remote) -> anyhow::Result<Server> {
        let mut builder = Client::builder()
            .servers(remote.servers.iter().map(String::as_str))
            .deadline(CONNECT_TIME_MAX);
        if let Some(token) = &remote.token {
            builder = builder.token(token.as_str());
        }
        if let Some(file) = &remote.ca_file {
            builder = builder.ca_file(file);
        }
        let has_token = remote.token.is_some();
        let client = builder.build().map_err(|error| Refusal::new(error, None, has_token))?;
        Ok(Server { client, has_token })
    }

    /// A request to a path.
    pub(super) fn ask(&self, method: Method, path: &str) -> Ask<'_> {
        let mut request = RawRequest::new(method, path);
        request.is_patient = true;
        Ask { server: self, request, space: None }
    }

    /// A request about a keyspace, to a path below it.
    pub(super) fn ask_in<'a>(&'a self, space: &'a str, method: Method, path: &str) -> Ask<'a> {
        let path = format!("/v1/spaces/{}{path}", encoded(space));
        Ask { space: Some(space), ..self.ask(method, &path) }
    }

    /// Asks for a path; the answer, whatever its status.
    pub(in crate::cli) async fn get(&self, path: &str) -> anyhow::Result<(u16, Bytes)> {
        let asking = async {
            let mut answer = self.client.send_raw(RawRequest::new(Method::GET, path)).await?;
            Ok((answer.status.as_u16(), answer.bytes().await?))
        };
        asking.await.map_err(|error| self.refused(error, None))
    }

    pub(super) fn refused(&self, error: ClientError, space: Option<&str>) -> anyhow::Error {
        Refusal::new(error, space, self.has_token).into()
    }
}

impl Ask<'_> {
    /// The same with a parameter.
    pub(super) fn query(mut self, name: &str, value: &str) -> Self {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair(name, value);
        let target = &mut self.request.target;
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(&query.finish());
        self
    }

    /// The same with a parameter, if it has a value.
    pub(super) fn query_if(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// The same with a JSON body.
    pub(super) fn json(self, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("what is asked can be written as JSON");
        self.body("application/json", RawBody::Whole(body.into()))
    }

    /// The same with a body of lines.
    pub(super) fn text(self, body: Bytes) -> Self {
        self.body("text/plain", RawBody::Whole(body))
    }

    /// The same with a body that is sent as it comes.
    pub(super) fn stream(
        self,
        content_type: &'static str,
        chunks: Receiver<io::Result<Bytes>>,
    ) -> Self {
        self.body(content_type, RawBody::Chunks(chunks))
    }

    fn body(mut self, content_type: &'static str, body: RawBody) -> Self {
        self.request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.request.body = body;
        self
    }

    /// The same for an answer of plain text.
    pub(super) fn for_text(mut self) -> Self {
        self.request.headers.insert(header::ACCEPT, HeaderValue::from_static("text/plain"));
        self
    }

    /// The same, which may be sent again if nobody knows whether it arrived.
    pub(super) fn repeatable(mut self) -> Self {
        self.request.is_repeatable = Some(true);
        self
    }

    /// Sends it, and returns the answer, unless that is a refusal.
    pub(super) async fn send(self) -> anyhow::Result<RawAnswer> {
        let Ask { server, request, space } = self;
        let time_max = match request.body {
            RawBody::Whole(_) => ANSWER_TIME_MAX,
            RawBody::Chunks(_) => IMPORT_TIME_MAX,
        };
        let answering = async { server.client.send_raw(request).await?.check().await };
        match timeout(time_max, answering).await {
            Ok(answer) => answer.map_err(|error| server.refused(error, space)),
            Err(_) => anyhow::bail!(
                "the server did not answer within {} minutes; whether it did what was asked is unknown",
                time_max.as_secs() / 60
            ),
        }
    }

    /// Sends it, and reads the answer as JSON.
    pub(super) async fn read<T: DeserializeOwned>(self) -> anyhow::Result<T> {
        let (server, space) = (self.server, self.space);
        let mut answer = self.send().await?;
        let body = answer.bytes().await.map_err(|error| server.refused(error, space))?;
        serde_json::from_slice(&body).map_err(|error| {
            anyhow::anyhow!(
                "the server's answer cannot be read ({error}); is it keymill, and of this version?"
            )
        })
    }
}

/// Reads a list page by page; `each` is given a page, and returns where the one behind it begins.
pub(super) async fn pages<'a, T: DeserializeOwned>(
    ask: impl Fn() -> Ask<'a>,
    mut each: impl FnMut(T) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let page = ask().query("limit", "1000").query_if("after", after.as_deref());
        after = each(page.read().await?)?;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// A name as a part of a path.
pub(super) fn encoded(name: &str) -> impl std::fmt::Display {
    utf8_percent_encode(name, ENCODED)
}
