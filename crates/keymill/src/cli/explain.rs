//! `keymill explain`: where a key came from.

use std::process::ExitCode;

use keymill_engine::operations::{Purpose, State};

use super::site::Via;
use super::unknown;
use crate::front::http::ExplanationView;

pub(super) async fn run(via: &Via, space: &str, key: &str, json: bool) -> anyhow::Result<ExitCode> {
    let site = via.open().await?;
    let explained = unknown::advised(&site, site.explain(space, key)).await;
    let explanation = match explained {
        Ok(explanation) => explanation,
        Err(error) => {
            return Err(unknown::or_swapped(error, &site, ["explain", space, key]).await);
        }
    };
    let valid = explanation.state != State::Invalid;
    if json {
        println!("{}", serde_json::to_string_pretty(&explanation)?);
    } else {
        print(&explanation);
    }
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(explanation: &ExplanationView) {
    let line = |name: &str, value: String| println!("{name:<10} {value}");
    line("key", explanation.key.clone());
    let state = serde_json::to_value(explanation.state).expect("a state is a plain word");
    line("state", format!("{}: {}", state.as_str().unwrap_or_default(), explanation.reason));
    if let Some(ordinal) = explanation.ordinal {
        line("ordinal", ordinal.0.to_string());
    }
    if let Some(number) = explanation.number {
        line("number", number.0.to_string());
    }
    if let Some(time) = explanation.time {
        line("time", time.to_string());
    }
    if let (Some(worker), Some(sequence)) = (explanation.worker, explanation.sequence) {
        line("worker", worker.to_string());
        line("sequence", sequence.to_string());
    }
    if let Some(used) = &explanation.used {
        line("used", used.used_at.to_string());
        if !used.caller.is_empty() {
            line("caller", used.caller.clone());
        }
        if let Some(at) = used.expires_at {
            line("expires", at.to_string());
        }
        if let Some(at) = used.retired_at {
            line("retired", at.to_string());
        }
    }
    if let Some(lease) = &explanation.lease {
        let of = if lease.purpose == Purpose::Window {
            String::new()
        } else {
            format!(" of ordinals {}..{}", lease.start.0, lease.end.0)
        };
        line("lease", format!("{}{of}", lease.lease.0));
        let holder = &lease.holder;
        line("holder", format!("{} (pid {} on {})", holder.id, holder.pid, holder.host));
        line("granted", lease.granted_at.to_string());
        if let (Some(at), Some(ordinal)) = (lease.closed_at, lease.closed_at_ordinal) {
            let at_ordinal = format!(" at ordinal {}", ordinal.0);
            let where_to = if lease.purpose == Purpose::Window { "" } else { &at_ordinal };
            line("closed", format!("{at}{where_to}"));
        }
    }
}
