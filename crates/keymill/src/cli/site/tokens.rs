//! Tokens: made, listed, rotated and revoked.

use anyhow::Context;
use jiff::SignedDuration;
use keymill_client::raw::Method;
use zeroize::Zeroizing;

use super::server::{encoded, pages};
use super::{Server, Site, Via};
use crate::access::issue::{self, TokenAsk};
use crate::access::listed::{self, ListedToken, TokenSource};
use crate::cli::token::HERE;
use crate::front::http::views::{MadeToken, NewToken, Rotation, TokenView, Tokens};

/// The tokens there are.
#[derive(Debug, Default)]
pub(in crate::cli) struct KnownTokens {
    /// Ordered by name.
    pub(in crate::cli) tokens: Vec<ListedToken>,
    /// Whether callers need a token.
    pub(in crate::cli) required: bool,
    /// Whether the list was rolled back.
    pub(in crate::cli) rolled_back: bool,
}

/// A token that was made, and its text.
pub(in crate::cli) type Made = (ListedToken, Zeroizing<String>);

impl Site {
    /// All tokens: those of the store, and those of the settings.
    pub(in crate::cli) async fn tokens(&self, via: &Via) -> anyhow::Result<KnownTokens> {
        match (self, via) {
            (Site::Store(service), Via::Store(config)) => {
                let known = service.tokens().await?;
                let configured = config.access.tokens.clone();
                let required = known.ever || !configured.is_empty();
                let tokens = listed::list(known.tokens, configured);
                Ok(KnownTokens { tokens, required, rolled_back: known.rolled_back })
            }
            (Site::Server(server), _) => server.tokens().await,
            (Site::Store(_), Via::Server(_)) => unreachable!("a site is of its own way"),
        }
    }

    /// A token.
    pub(in crate::cli) async fn token(&self, via: &Via, name: &str) -> anyhow::Result<ListedToken> {
        match self {
            Site::Store(_) => Ok(listed::find(self.tokens(via).await?.tokens, name)?),
            Site::Server(server) => {
                let path = format!("/v1/tokens/{}", encoded(name));
                let view: TokenView = server.ask(Method::GET, &path).read().await?;
                Ok(view.into())
            }
        }
    }

    /// Makes a token.
    pub(in crate::cli) async fn create_token(
        &self,
        via: &Via,
        ask: TokenAsk,
    ) -> anyhow::Result<Made> {
        match self {
            Site::Store(service) => {
                let (record, text) = issue::create(service, &ask, HERE, &configured(via)).await?;
                Ok((ListedToken { record, source: TokenSource::Store }, text))
            }
            Site::Server(server) => {
                let TokenAsk { name, allow, expires_at, rate, quota, certificate } = ask;
                let new = NewToken { name, allow, expires_at, rate, quota, certificate };
                let made: MadeToken =
                    server.ask(Method::POST, "/v1/tokens").json(&new).read().await?;
                Ok((made.view.into(), Zeroizing::new(made.token)))
            }
        }
    }

    /// Gives a token a new text.
    pub(in crate::cli) async fn rotate_token(
        &self,
        via: &Via,
        name: &str,
        overlap: SignedDuration,
    ) -> anyhow::Result<Made> {
        match self {
            Site::Store(service) => {
                let (record, text) =
                    issue::rotate(service, name, overlap, &configured(via)).await?;
                Ok((ListedToken { record, source: TokenSource::Store }, text))
            }
            Site::Server(server) => {
                let path = format!("/v1/tokens/{}/rotate", encoded(name));
                let seconds = u32::try_from(overlap.as_secs()).unwrap_or(u32::MAX);
                let rotation = Rotation { overlap_seconds: Some(seconds) };
                let made: MadeToken =
                    server.ask(Method::POST, &path).json(&rotation).read().await?;
                Ok((made.view.into(), Zeroizing::new(made.token)))
            }
        }
    }

    /// Revokes a token.
    pub(in crate::cli) async fn revoke_token(&self, via: &Via, name: &str) -> anyhow::Result<()> {
        match self {
            Site::Store(service) => {
                issue::revoke(service, name, &configured(via)).await?;
            }
            Site::Server(server) => {
                let path = format!("/v1/tokens/{}", encoded(name));
                server.ask(Method::DELETE, &path).send().await?;
            }
        }
        Ok(())
    }

    /// Puts on record what was done. A server does that by itself.
    pub(in crate::cli) async fn record_act(&self, what: &str) -> anyhow::Result<()> {
        let Site::Store(service) = self else { return Ok(()) };
        let host = &service.instance().host;
        service.record_act(HERE, host, what).await.context("the act was done, but not recorded")
    }
}

impl Server {
    async fn tokens(&self) -> anyhow::Result<KnownTokens> {
        let mut known = KnownTokens::default();
        let pages = pages(
            || self.ask(Method::GET, "/v1/tokens"),
            |page: Tokens| {
                known.tokens.extend(page.tokens.into_iter().map(ListedToken::from));
                (known.required, known.rolled_back) = (page.required, page.rolled_back);
                Ok(page.next)
            },
        );
        pages.await?;
        Ok(known)
    }
}

/// The names of the tokens in the settings.
fn configured(via: &Via) -> Vec<String> {
    match via {
        Via::Store(config) => config.access.tokens.iter().map(|it| it.name.clone()).collect(),
        Via::Server(_) => Vec::new(),
    }
}
