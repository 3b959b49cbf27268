//! `keymill explain`: where a key came from.

use std::process::ExitCode;

use keymill_engine::operations::{Explanation, Purpose, State};

use super::{open_service, unknown};
use crate::config::Config;
use crate::front::http::ExplanationView;

pub(super) async fn run(
    config: Config,
    space: &str,
    key: &str,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let service = open_service(&config, true).await?;
    let explained =
        unknown::advised(&service, async { Ok(service.explain(space, key).await?) }).await;
    let explanation = match explained {
        Ok(explanation) => explanation,
        Err(error) => {
            return Err(unknown::or_swapped(error, &service, ["explain", space, key]).await);
        }
    };
    let valid = explanation.state != State::Invalid;
    if json {
        println!(
            "{}",
            serde_json::to_string_pretty(&ExplanationView::new(space, key, explanation))?
        );
    } else {
        print(key, &explanation);
    }
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(asked: &str, explanation: &Explanation) {
    let line = |name: &str, value: String| println!("{name:<10} {value}");
    line("key", explanation.key.clone().unwrap_or_else(|| asked.to_owned()));
    let state = serde_json::to_value(explanation.state).expect("a state is a plain word");
    line("state", format!("{}: {}", state.as_str().unwrap_or_default(), explanation.reason));
    if let Some(ordinal) = explanation.ordinal {
        line("ordinal", ordinal.to_string());
    }
    if let Some(number) = explanation.number {
        line("number", number.to_string());
    }
    if let Some(time) = explanation.time {
        line("time", time.to_string());
    }
    if let Some(id) = explanation.id {
        line("worker", id.worker.to_string());
        line("sequence", id.sequence.to_string());
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
            format!(" of ordinals {:?}", lease.ordinals)
        };
        line("lease", format!("{}{of}", lease.lease));
        let holder = &lease.holder;
        line("holder", format!("{} (pid {} on {})", holder.id, holder.pid, holder.host));
        line("granted", lease.granted_at.to_string());
        if let (Some(at), Some(ordinal)) = (lease.closed_at, lease.closed_at_ordinal) {
            let at_ordinal = format!(" at ordinal {ordinal}");
            let where_to = if lease.purpose == Purpose::Window { "" } else { &at_ordinal };
            line("closed", format!("{at}{where_to}"));
        }
    }
}
