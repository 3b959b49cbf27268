//! Aliases, and where a key came from.

use keymill_client::raw::Method;

use super::Site;
use super::server::{encoded, pages};
use crate::front::http::views::{AliasRecordView, Aliases, ExplanationView, Owner};

/// How many aliases are read at once.
const PAGE: u32 = 1_000;

impl Site {
    /// Where a key came from.
    pub(in crate::cli) async fn explain(
        &self,
        space: &str,
        key: &str,
    ) -> anyhow::Result<ExplanationView> {
        match self {
            Site::Store(service) => {
                Ok(ExplanationView::new(space, key, service.explain(space, key).await?))
            }
            Site::Server(server) => {
                let path = format!("/keys/{}", encoded(key));
                server.ask_in(space, Method::GET, &path).read().await
            }
        }
    }

    /// Reserves an alias; whether it is new.
    pub(in crate::cli) async fn add_alias(
        &self,
        space: &str,
        alias: &str,
        owner: &str,
    ) -> anyhow::Result<bool> {
        match self {
            Site::Store(service) => Ok(service.add_alias(space, alias, owner).await?),
            Site::Server(server) => {
                let path = format!("/aliases/{}", encoded(alias));
                let owner = Owner { owner: owner.to_owned() };
                let answer = server.ask_in(space, Method::PUT, &path).json(&owner).send().await?;
                Ok(answer.status.as_u16() == 201)
            }
        }
    }

    /// An alias.
    pub(in crate::cli) async fn alias(
        &self,
        space: &str,
        alias: &str,
    ) -> anyhow::Result<AliasRecordView> {
        match self {
            Site::Store(service) => Ok(service.alias(space, alias).await?.into()),
            Site::Server(server) => {
                let path = format!("/aliases/{}", encoded(alias));
                server.ask_in(space, Method::GET, &path).read().await
            }
        }
    }

    /// All aliases of a keyspace; `each` is given a page of them, and returns whether to go on.
    pub(in crate::cli) async fn aliases(
        &self,
        space: &str,
        mut each: impl FnMut(Vec<AliasRecordView>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let service = match self {
            Site::Store(service) => service,
            Site::Server(server) => {
                let pages = pages(
                    || server.ask_in(space, Method::GET, "/aliases"),
                    |page: Aliases| {
                        let goes_on = each(page.aliases)?;
                        Ok(page.next.filter(|_| goes_on))
                    },
                );
                return pages.await;
            }
        };
        let mut after = None;
        loop {
            let page = service.aliases(space, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.key.clone());
            if !each(page.into_iter().map(AliasRecordView::from).collect())? {
                return Ok(());
            }
        }
    }

    /// Removes an alias.
    pub(in crate::cli) async fn remove_alias(
        &self,
        space: &str,
        alias: &str,
        owner: &str,
    ) -> anyhow::Result<()> {
        match self {
            Site::Store(service) => service.remove_alias(space, alias, owner).await?,
            Site::Server(server) => {
                let path = format!("/aliases/{}", encoded(alias));
                let owner = Some(owner).filter(|owner| !owner.is_empty());
                let delete = server.ask_in(space, Method::DELETE, &path);
                delete.query_if("owner", owner).send().await?;
            }
        }
        Ok(())
    }
}
