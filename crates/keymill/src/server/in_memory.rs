//! Single connections over streams that are no sockets, for the fuzz targets in `fuzz/`.
//!
//! They are served by the same code as any other connection. What differs is around it: there is no place to take, no
//! time limit, and nothing tells them to end but the client. It is no part of the interface of this library.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::activity::Activity;
use super::connection::{self, OtherStream, Served};
use super::redis_connection;
use crate::front::http::{Http, Listener};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Serves HTTP/1.1 or HTTP/2, and gRPC over that, until the client or the server ends the connection.
pub async fn serve_http<S>(stream: S, http: &Http)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (front, _line) = http.for_connection(CLIENT, Listener::Public, false);
    let served = Arc::new(Served { front, activity: Activity::default() });
    let stream: Box<dyn OtherStream> = Box::new(stream);
    // Why it ended is of no use to anybody: the client has its answers.
    let _ = connection::serve(stream, served).await;
}

/// Serves the Redis protocol until the client or the server ends the connection.
pub async fn serve_redis<S>(stream: S, http: &Http)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (front, _line) = http.redis().for_connection(CLIENT);
    let served = Arc::new(Served { front, activity: Activity::of_redis() });
    let stream: Box<dyn OtherStream> = Box::new(stream);
    let _ = redis_connection::serve(stream, served).await;
}
