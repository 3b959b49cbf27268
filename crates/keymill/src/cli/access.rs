//! Who may do what, for a server that starts: it learns the store's tokens, keeps them up to date, and
//! refuses to listen on the network while everybody could do everything.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use keymill_engine::operations::{Service, ServiceError};
use tokio::time::{MissedTickBehavior, interval};

use crate::access::Access;
use crate::server::Endpoint;

/// Reads the tokens of the store, and refuses names that the settings use as well.
pub(super) async fn learn(access: &Access, service: &Service) -> anyhow::Result<()> {
    let known = service.tokens().await?;
    let names = access.configured_names();
    if let Some(twice) = known.tokens.iter().find(|token| names.contains(&token.name)) {
        bail!(
            "the token `{}` is in the settings and in the store; rename the one in the settings, or revoke the \
             other with `keymill token revoke {}`",
            twice.name,
            twice.name
        );
    }
    access.learn(known);
    Ok(())
}

/// Refuses an address that others can reach, where nobody needs a token.
pub(super) fn refuse_open_port(
    access: &Access,
    endpoints: &[Endpoint],
    admin: Option<&Endpoint>,
    insecure: bool,
) -> anyhow::Result<()> {
    let reachable = endpoints.iter().chain(admin).find(|endpoint| !endpoint.is_local());
    let Some(address) = reachable.filter(|_| !access.is_on()) else { return Ok(()) };
    if insecure {
        tracing::warn!(
            "whoever reaches {address} can take keys and change everything: there are no tokens, and \
             --insecure-no-auth is set"
        );
        return Ok(());
    }
    bail!(
        "cannot listen on {address} without tokens: whoever reaches it could take keys and change \
         everything. Create a token first, with the \
         same --store, --data-dir and --config as this command:\n\n  keymill token create operator --allow \
         'admin:*'\n\nor, if the network in front of it is trusted, add --insecure-no-auth"
    )
}

/// Reads the tokens again at every heartbeat, for as long as the process lives, so that a revocation holds
/// everywhere soon.
pub(super) async fn keep_up(access: Arc<Access>, service: Service, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_told = false;
    loop {
        ticks.tick().await;
        match access.reread(&service).await {
            Ok(()) => is_told = false,
            // The heartbeat itself says that the store is unreachable.
            Err(ServiceError::StoreUnavailable(_)) => {}
            Err(error) if !is_told => {
                is_told = true;
                tracing::error!("the tokens cannot be read: {error}");
            }
            Err(_) => {}
        }
    }
}
