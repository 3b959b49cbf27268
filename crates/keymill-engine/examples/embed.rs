//! keymill inside a program, on a SQLite file of its own: `cargo run -p keymill-engine --example embed`.

use keymill_engine::{Error, Keymill, Shape};

#[tokio::main]
async fn main() -> Result<(), Error> {
    // A true program keeps its keys: "sqlite:keys.db".
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let url = format!("sqlite:{}/keys.db", folder.path().display());

    let keymill = Keymill::open(&url).await?;
    let links = keymill.keyspace("links").shape(Shape::base62(7)).ensure().await?;
    println!("a link          {}", links.take().await?);

    let shape = Shape::base32(8).prefix("ord_").group(4).with_check();
    let orders = keymill.keyspace("orders").shape(shape).ensure().await?;
    let batch = orders.take_many(1_000).await?;
    println!("a thousand      {} … {}", batch[0], batch[999]);

    let about = orders.explain(&batch[0]).await?;
    println!("the first is    {:?}: {}", about.state, about.reason);
    keymill.close().await;

    let keymill = Keymill::builder(&url).without_heartbeat().open().await?;
    println!("one more order  {}", keymill.open_keyspace("orders").await?.take().await?);
    keymill.close().await;
    Ok(())
}
