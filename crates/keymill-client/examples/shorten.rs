//! Short links: takes a key for each URL that is typed, from a cache that is filled ahead of need.
//!
//! Start a server with `keymill serve`, then `cargo run --example shorten`.

use std::io::{self, BufRead};

use keymill_client::blocking::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::var("KEYMILL_SERVER").unwrap_or("http://127.0.0.1:8080".to_owned());
    let links = Client::connect(&server)?.keyspace("default").cached();
    for url in io::stdin().lock().lines() {
        println!("https://sho.rt/{} -> {}", links.take()?, url?);
    }
    Ok(())
}
