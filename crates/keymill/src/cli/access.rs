//! Who may do what, for a server that starts: it learns the store's tokens, keeps them up to date, and
//! refuses to listen on the network while everybody could do everything.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use keymill_engine::operations::{Service, ServiceError};
use tokio::time::{MissedTickBehavior, interval};

use super::figures::counted;
use crate::access::{Access, AccessSummary};
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

/// Addresses that others may reach, where nobody may need a token.
#[derive(Debug)]
pub(super) struct OpenPort<'a> {
    pub(super) endpoints: &'a [Endpoint],
    pub(super) admin: Option<&'a Endpoint>,
    /// Whether `--insecure-no-auth` is set.
    pub(super) is_allowed: bool,
}

impl OpenPort<'_> {
    /// Refuses them, unless that is allowed.
    pub(super) fn refuse(&self, access: &Access) -> anyhow::Result<()> {
        let addresses = self.addresses(access);
        if addresses.is_empty() || self.is_allowed {
            return Ok(());
        }
        bail!(
            "cannot listen on {addresses} without tokens: whoever reaches it could take keys and change \
             everything. Create a token first, with the \
             same --store, --data-dir and --config as this command:\n\n  keymill token create operator --allow \
             'admin:*'\n\nor, if the network in front of it is trusted, add --insecure-no-auth"
        )
    }

    /// Warns of them where they are allowed.
    pub(super) fn warn(&self, access: &Access) {
        let addresses = self.addresses(access);
        if !addresses.is_empty() && self.is_allowed {
            tracing::warn!(
                "whoever reaches {addresses} can take keys and change everything: there are no tokens, and \
                 --insecure-no-auth is set"
            );
        }
    }

    /// The addresses that others can reach without a token.
    fn addresses(&self, access: &Access) -> String {
        let endpoints = self.endpoints.iter().chain(self.admin);
        let reachable = endpoints.filter(|endpoint| !endpoint.is_local() && !access.is_on());
        reachable.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Who may do what, for the greeting. `is_local` says whether only this machine can connect.
pub(super) fn in_words(access: &AccessSummary, is_local: bool) -> String {
    if !access.is_on {
        let who = if is_local { "everybody on this machine" } else { "whoever reaches it" };
        return format!("no tokens: {who} may do everything; see `keymill token create`");
    }
    let tokens = match access.tokens {
        0 => "no valid token".to_owned(),
        count => counted(count as u64, "token", "tokens"),
    };
    if access.anonymous.is_empty() {
        return format!("{tokens}; callers without one may take and change nothing");
    }
    format!("{tokens}; callers without one may {}", access.anonymous.join(", "))
}

/// Warns of settings for callers without a token, where nobody needs one.
pub(super) fn warn_of_no_tokens(access: &AccessSummary) {
    if !access.is_on && !access.anonymous.is_empty() {
        tracing::warn!(
            "`anonymous_allow` restricts nothing as long as there are no tokens: everybody may do everything. \
             Create a token with `keymill token create`"
        );
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_tells_who_may_do_what() {
        for (is_on, tokens, anonymous, is_local, says) in [
            (false, 0, "", true, "no tokens: everybody on this machine may do everything"),
            (false, 0, "take:a", false, "no tokens: whoever reaches it may do everything"),
            (true, 0, "", true, "no valid token; callers without one may take and change nothing"),
            (true, 1, "", false, "1 token; callers without one may take and change nothing"),
            (true, 3, "take:a", false, "3 tokens; callers without one may take:a"),
        ] {
            let anonymous = anonymous.split_terminator(',').map(str::to_owned).collect();
            let told = in_words(&AccessSummary { is_on, tokens, anonymous }, is_local);
            assert!(told.starts_with(says), "{told}");
        }
    }
}
