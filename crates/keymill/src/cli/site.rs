//! Where a command does its work: on a store that this process opens, or at a server.
//!
//! Commands ask a [`Site`], and print what it answers. The answers are the views of the HTTP interface in both cases,
//! so that what is printed stands once and is the same. Each file below has the questions of one topic, first for a
//! store and then for a server. Nothing here prints.

mod advance;
mod digests;
mod keys;
mod moving;
mod names;
mod pools;
mod records;
pub(super) mod refusal;
mod server;
mod spaces;
mod tokens;

use keymill_engine::operations::Service;

use super::{check_safety, open_service};
use crate::config::{Config, Remote};

pub(super) use advance::AdvanceFlags;
pub(super) use digests::DigestedKey;
pub(super) use moving::ImportedSpace;
pub(super) use pools::ImportProgress;
pub(super) use records::UsedAsk;
pub(super) use server::Server;
pub(super) use tokens::KnownTokens;

/// How a command gets to keyspaces.
#[derive(Debug)]
pub(super) enum Via {
    /// By the settings of a store.
    Store(Box<Config>),
    /// By a server.
    Server(Remote),
}

/// A store that was opened, or a server.
#[derive(Debug)]
pub(super) enum Site {
    /// This process is an instance on the store.
    Store(Service),
    /// Instances are elsewhere.
    Server(Server),
}

impl Via {
    /// Opens the store, which may be an unsafe one, or prepares to ask the server. Nothing is sent yet.
    pub(super) async fn open(&self) -> anyhow::Result<Site> {
        match self {
            Via::Store(config) => Ok(Site::Store(open_service(config, true).await?)),
            Via::Server(remote) => Ok(Site::Server(Server::new(remote)?)),
        }
    }

    /// The same, for a command that needs a safe store. A server has checked its own.
    pub(super) async fn open_safe(&self) -> anyhow::Result<Site> {
        match self {
            Via::Store(config) => {
                let service = open_service(config, config.allow_unsafe_store).await?;
                check_safety(&service.check().await?, config.allow_unsafe_store)?;
                Ok(Site::Store(service))
            }
            Via::Server(remote) => Ok(Site::Server(Server::new(remote)?)),
        }
    }

    /// The settings of the store, for a command that works on nothing else.
    pub(super) fn config(&self) -> anyhow::Result<&Config> {
        match self {
            Via::Store(config) => Ok(config),
            Via::Server(_) => anyhow::bail!("this command does not work through a server"),
        }
    }

    /// The keyspace that is used when none is named.
    pub(super) fn default_space(&self) -> &str {
        match self {
            Via::Store(config) => &config.default_space,
            Via::Server(remote) => &remote.default_space,
        }
    }
}

impl Site {
    /// Says goodbye to the store.
    pub(super) async fn leave(&self) {
        if let Site::Store(service) = self {
            service.leave().await;
        }
    }
}
