//! Keyspaces: listed, shown, created, changed, grown and sealed.

use jiff::Timestamp;
use keymill_client::raw::Method;
use keymill_engine::space::SpaceSpec;

use super::Site;
use super::server::pages;
use crate::front::http::views::{BoundsView, Growth, SpaceView, Spaces};
use crate::front::space_settings;

/// What became of a wish for a keyspace.
#[derive(Debug)]
pub(in crate::cli) struct Ensured {
    /// Whether it was created just now.
    pub(in crate::cli) made: bool,
    /// Whether settings of it were changed.
    pub(in crate::cli) tuned: bool,
    pub(in crate::cli) space: SpaceView,
}

impl Site {
    /// All keyspaces, ordered by name.
    pub(in crate::cli) async fn spaces(&self) -> anyhow::Result<Vec<SpaceView>> {
        let server = match self {
            Site::Store(service) => {
                let reports = service.reports().await?;
                return Ok(reports.into_iter().map(SpaceView::from).collect());
            }
            Site::Server(server) => server,
        };
        let mut all = Vec::new();
        let pages = pages(
            || server.ask(Method::GET, "/v1/spaces"),
            |page: Spaces| {
                all.extend(page.spaces);
                Ok(page.next)
            },
        );
        pages.await?;
        Ok(all)
    }

    /// The names of all keyspaces; none if they cannot be read, because the error that they are needed for matters
    /// more.
    pub(in crate::cli) async fn space_names(&self) -> Vec<String> {
        match self {
            Site::Store(service) => service.space_names().await.unwrap_or_default(),
            Site::Server(_) => {
                let spaces = self.spaces().await.unwrap_or_default();
                spaces.into_iter().map(|space| space.name).collect()
            }
        }
    }

    /// A keyspace.
    pub(in crate::cli) async fn space(&self, name: &str) -> anyhow::Result<SpaceView> {
        match self {
            Site::Store(service) => Ok(service.report(name).await?.into()),
            Site::Server(server) => server.ask_in(name, Method::GET, "").read().await,
        }
    }

    /// Creates a keyspace, or changes what may change of one that has the same key format.
    pub(in crate::cli) async fn ensure_space(
        &self,
        name: &str,
        wanted: &SpaceSpec,
    ) -> anyhow::Result<Ensured> {
        match self {
            Site::Store(service) => {
                let ensured = service.ensure_space(name, wanted).await?;
                let space = service.report(name).await?.into();
                Ok(Ensured { made: ensured.made, tuned: ensured.tuned, space })
            }
            Site::Server(server) => {
                let before = self.known_space(name).await?;
                let put = server.ask_in(name, Method::PUT, "").json(wanted);
                let space: SpaceView = put.read().await?;
                let tuned = before.as_ref().is_some_and(|before| before.tuning != space.tuning);
                Ok(Ensured { made: before.is_none(), tuned, space })
            }
        }
    }

    /// Changes settings of a keyspace.
    pub(in crate::cli) async fn change_space(
        &self,
        name: &str,
        wanted: &SpaceSpec,
    ) -> anyhow::Result<Ensured> {
        match self {
            Site::Store(service) => {
                let changed = space_settings::change(service, name, wanted).await?;
                let space = service.report(name).await?.into();
                Ok(Ensured { made: false, tuned: changed.tuned, space })
            }
            Site::Server(server) => {
                let before = self.space(name).await?;
                let patch = server.ask_in(name, Method::PATCH, "").json(wanted).repeatable();
                let space: SpaceView = patch.read().await?;
                Ok(Ensured { made: false, tuned: before.tuning != space.tuning, space })
            }
        }
    }

    /// Adds longer keys to a keyspace.
    pub(in crate::cli) async fn grow(&self, name: &str, length: u8) -> anyhow::Result<SpaceView> {
        match self {
            Site::Store(service) => {
                service.grow(name, length).await?;
                self.space(name).await
            }
            Site::Server(server) => {
                server.ask_in(name, Method::POST, "/grow").json(&Growth { length }).read().await
            }
        }
    }

    /// Seals a keyspace.
    pub(in crate::cli) async fn seal(&self, name: &str) -> anyhow::Result<()> {
        match self {
            Site::Store(service) => drop(service.seal(name).await?),
            Site::Server(server) => {
                let seal = server.ask_in(name, Method::POST, "/seal").query("confirm", name);
                seal.repeatable().send().await?;
            }
        }
        Ok(())
    }

    /// The lowest and the highest key of a period.
    pub(in crate::cli) async fn bounds(
        &self,
        name: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> anyhow::Result<BoundsView> {
        match self {
            Site::Store(service) => {
                let found = service.bounds(name, from, to).await?;
                let (first, last) = found.map(|bounds| (bounds.first, bounds.last)).unzip();
                Ok(BoundsView { first, last })
            }
            Site::Server(server) => {
                let bounds = server.ask_in(name, Method::GET, "/bounds");
                bounds.query("from", &from.to_string()).query("to", &to.to_string()).read().await
            }
        }
    }

    /// A keyspace, if it exists.
    async fn known_space(&self, name: &str) -> anyhow::Result<Option<SpaceView>> {
        match self.space(name).await {
            Ok(space) => Ok(Some(space)),
            Err(error) if super::refusal::unknown_space(&error).is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
