//! How a MySQL server is connected to.

use mysql_async::{Conn, OptsBuilder, SslOpts};

use super::connection::Connection;
use super::{fold_error, session};
use crate::store::connections::IDLE_MAX;
use crate::store::sql::driver::Result;
use crate::store::sql::hosts::{Hosts, Route, Server};
use crate::store::url::{Host, StoreUrl, is_plain_name};
use crate::store::{Opening, StoreError};

const PORT: u16 = 3306;

/// MySQL or MariaDB.
#[derive(Debug)]
pub(super) struct MysqlServer {
    tls: Option<SslOpts>,
}

/// The servers of a URL.
pub(super) fn hosts(url: &str, opening: Opening) -> Result<Hosts<MysqlServer>> {
    let url = StoreUrl::parse(url, &[])?;
    if !is_plain_name(&url.path) {
        return Err(StoreError::Broken(
            "the store's URL needs a database of letters, digits, _ and -: \
             mysql://user:password@host/keymill"
                .to_owned(),
        ));
    }
    let tls = url.tls()?.map(|tls| match tls.ca {
        Some(ca) => {
            SslOpts::default().with_root_certs(vec![ca.into()]).with_disable_built_in_roots(true)
        }
        None => SslOpts::default(),
    });
    Ok(Hosts::new(url, MysqlServer { tls }, opening))
}

impl MysqlServer {
    /// How to connect; to no database, where the URL has none.
    pub(super) fn options(&self, url: &StoreUrl, host: &Host) -> OptsBuilder {
        OptsBuilder::default()
            .ip_or_hostname(host.name.clone())
            .tcp_port(host.port_or(PORT))
            .user(Some(url.user.as_deref().unwrap_or("root")))
            .pass(url.password.clone())
            .db_name((!url.path.is_empty()).then_some(&url.path))
            .prefer_socket(false)
            // Before anything is read that a limit may cut off, the list of migrations too.
            .setup(vec![session::connect()])
            .ssl_opts(self.tls.clone())
    }
}

impl Server for MysqlServer {
    const NAME: &'static str = "mysql";

    type Link = Connection;

    async fn connect(&self, url: &StoreUrl, host: &Host, route: Route) -> Result<Connection> {
        let conn = Conn::new(self.options(url, host)).await;
        let conn = conn.map_err(|error| fold_error(&route.server_name, &error))?;
        let mut connection = Connection::new(conn, route);
        connection.end_idle_transactions(IDLE_MAX.as_secs()).await?;
        Ok(connection)
    }
}
