//! Used keys, and the store.

use jiff::Timestamp;
use keymill_client::raw::Method;
use keymill_engine::operations::UsedPage;

use super::server::pages;
use super::{Server, Site};
use crate::front::http::views::{StoreView, UsedKeys, UsedView};

/// How many keys are read at once.
const PAGE: u32 = 10_000;

/// Which used keys are asked for.
#[derive(Debug)]
pub(in crate::cli) struct UsedAsk {
    pub(in crate::cli) space: String,
    pub(in crate::cli) from: Option<Timestamp>,
    pub(in crate::cli) to: Option<Timestamp>,
    pub(in crate::cli) caller: Option<String>,
}

impl Site {
    /// Used keys, ordered by time; `each` is given a page of them.
    pub(in crate::cli) async fn used(
        &self,
        ask: UsedAsk,
        mut each: impl FnMut(Vec<UsedView>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let UsedAsk { space, from, to, caller } = ask;
        let service = match self {
            Site::Store(service) => service,
            Site::Server(server) => {
                let [from, to] = [from, to].map(|time| time.map(|time| time.to_string()));
                let ask = || {
                    let ask = server.ask_in(&space, Method::GET, "/used");
                    let ask = ask.query_if("from", from.as_deref()).query_if("to", to.as_deref());
                    ask.query_if("caller", caller.as_deref())
                };
                let each = |page: UsedKeys| {
                    each(page.used)?;
                    Ok(page.next)
                };
                return pages(ask, each).await;
            }
        };
        let mut page = UsedPage { space, from, to, caller, after: None, limit: PAGE };
        loop {
            let used = service.used(&page).await?;
            page.after = used.last().map(|last| (last.used_at, last.id));
            let is_last = used.len() < PAGE as usize;
            each(used.into_iter().map(UsedView::from).collect())?;
            if is_last {
                return Ok(());
            }
        }
    }
}

impl Server {
    /// The store of the server.
    pub(in crate::cli) async fn store(&self) -> anyhow::Result<StoreView> {
        self.ask(Method::GET, "/v1/store").read().await
    }
}
