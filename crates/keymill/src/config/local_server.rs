//! The server that these settings describe, as a health check on its own machine reaches it.
//!
//! `keymill health` asks for it. Nothing else is resolved: whether a server is well is no matter of its store and its
//! secrets, which the user of a health check may not be able to read.

use anyhow::{Context, bail};

use super::{Config, Flags};
use crate::server::Endpoint;

/// Where a server on this machine can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Whether it uses TLS there.
    pub is_tls: bool,
}

impl LocalServer {
    /// The address for administration, if there is one, because its connections are its own; else the first address.
    pub fn load(flags: &Flags) -> anyhow::Result<LocalServer> {
        let (settings, origins) = Config::read(flags)?;
        let admin = settings.admin_endpoint();
        let endpoint = match admin.map_err(|error| origins.blame("admin_listen", error))? {
            Some(admin) => admin,
            None => {
                let all = settings.endpoints().map_err(|error| origins.blame("listen", error))?;
                all.into_iter().next().context("`listen` names no address")?
            }
        };
        let is_tcp = match &endpoint {
            Endpoint::Tcp(address) if address.port() == 0 => bail!(
                "the settings leave the port to the system ({address}), so it is unknown where the server \
                 listens; name it with --server"
            ),
            Endpoint::Tcp(_) => true,
            Endpoint::Unix(_) => false,
        };
        Ok(LocalServer { endpoint, is_tls: is_tcp && settings.tls_certificate.is_some() })
    }
}
