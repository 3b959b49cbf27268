//! The stop of the instance, as its background tasks wait for it.

use tokio::sync::watch;

/// Resolves once the instance stops.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the service itself is gone: a stop, too.
    let _ = stop.wait_for(|stop| *stop).await;
}
