//! Advancing a keyspace: planned first, then done.

use keymill_client::raw::Method;
use keymill_engine::operations::{AdvanceAsk, AdvancePlan};

use super::refusal::code_of;
use super::server::Ask;
use super::{Server, Site};
use crate::cli::import::Input;
use crate::front::http::views::{AdvanceView, KeysRead};

/// What an advance is told, besides keys.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct AdvanceFlags {
    /// At least to this ordinal.
    pub(in crate::cli) to: Option<u64>,
    /// Keys that are longer than any of the keyspace are none of its own.
    pub(in crate::cli) ignore_longer: bool,
    /// Every input since the backup will be digested again before any other.
    pub(in crate::cli) inputs_again: bool,
}

/// What an advance will do.
#[derive(Debug)]
pub(in crate::cli) struct Planned {
    pub(in crate::cli) view: AdvanceView,
    flags: AdvanceFlags,
    /// On a store, the plan itself. A server plans again, and is told how far to go.
    plan: Option<AdvancePlan>,
}

impl Site {
    /// Plans to go beyond everything seen, and beyond keys in use, one per line.
    pub(in crate::cli) async fn plan_advance(
        &self,
        name: &str,
        flags: AdvanceFlags,
        beyond: Option<Input>,
    ) -> anyhow::Result<Planned> {
        let AdvanceFlags { to, ignore_longer, inputs_again } = flags;
        let service = match self {
            Site::Store(service) => service,
            Site::Server(server) => {
                let view = server.plan_advance(name, flags, beyond).await?;
                return Ok(Planned { view, flags, plan: None });
            }
        };
        let mut ask = AdvanceAsk { to, ignore_longer, inputs_again, beyond: None };
        if let Some(mut input) = beyond {
            let mut keys = service.highest_keys(name).await?;
            let mut buffer = vec![0; 1 << 16];
            loop {
                match input.read(&mut buffer)? {
                    0 => break,
                    read => keys.push(&buffer[..read]),
                }
            }
            keys.finish();
            ask.beyond = Some(keys);
        }
        let read = ask.beyond.as_ref().map(KeysRead::from);
        let plan = service.plan_advance(name, ask).await?;
        let view = AdvanceView::planned(&plan, read)?;
        Ok(Planned { view, flags, plan: Some(plan) })
    }

    /// Does what was planned.
    pub(in crate::cli) async fn advance(&self, planned: Planned) -> anyhow::Result<AdvanceView> {
        let Planned { view, flags, plan } = planned;
        match (self, plan) {
            (Site::Store(service), Some(plan)) => {
                let record = service.advance(&plan).await?;
                let (next, timeline) = (record.mark.next, record.definition.timeline()?);
                Ok(view.done(next, timeline.map(|timeline| timeline.time_of(next))))
            }
            (Site::Server(server), _) => {
                let flags = AdvanceFlags { to: Some(view.next.get()), ..flags };
                let ask = server.ask_to_advance(&view.space, flags).query("confirm", &view.space);
                ask.repeatable().read().await
            }
            (Site::Store(_), None) => unreachable!("it was planned on this store"),
        }
    }
}

impl Server {
    async fn plan_advance(
        &self,
        name: &str,
        flags: AdvanceFlags,
        beyond: Option<Input>,
    ) -> anyhow::Result<AdvanceView> {
        let ask = self.ask_to_advance(name, flags);
        let planned = match beyond {
            None => ask.repeatable().read().await,
            Some(keys) => ask.stream("text/plain", keys.into_chunks(|_| {})).read().await,
        };
        planned.map_err(|error: anyhow::Error| match code_of(&error) {
            Some("body_too_slow") => error.context("write the keys to a file first"),
            _ => error,
        })
    }

    fn ask_to_advance<'a>(&'a self, name: &'a str, flags: AdvanceFlags) -> Ask<'a> {
        let to = flags.to.map(|to| to.to_string());
        let is_set = |flag: bool| flag.then_some("true");
        let ask = self.ask_in(name, Method::POST, "/advance").query_if("to", to.as_deref());
        let ask = ask.query_if("ignore_longer", is_set(flags.ignore_longer));
        ask.query_if("inputs_again", is_set(flags.inputs_again))
    }
}
