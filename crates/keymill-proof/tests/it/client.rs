//! The Rust client against real servers: every call and error, servers that are killed, and the cache.

mod busy;
mod cache;
mod calls;
mod errors;
mod forks;

use std::time::Duration;

use keymill_client::{Builder, Client};
use keymill_proof::{Fleet, Server};

fn url(server: &Server) -> String {
    format!("http://{}", server.address())
}

fn builder(server: &Server) -> Builder {
    Client::builder().servers([url(server)])
}

fn client(server: &Server) -> Client {
    builder(server).build().unwrap()
}

/// A client of all servers of a fleet, that waits for as long as a test may take.
fn client_of(fleet: &Fleet) -> Client {
    let urls = fleet.each().map(|server| url(&server));
    Client::builder().servers(urls).deadline(Duration::from_secs(30)).build().unwrap()
}
