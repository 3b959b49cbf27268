//! The log of `keymill serve`: text for people or JSON for programs, on standard error.
//!
//! `cli` starts it before the settings are read, so that errors in them are written like everything
//! else. With JSON, every line is JSON: greeting and farewell, errors and panics too.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use anyhow::Context;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

#[cfg(feature = "otel")]
use super::traces::Traces;
use crate::config::LogFormat;

/// How this process writes its log, once it has one.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// The log that is being written.
#[derive(Debug)]
pub(super) struct Log {
    filter: reload::Handle<EnvFilter, Registry>,
    /// Where spans go.
    #[cfg(feature = "otel")]
    pub(super) traces: Traces,
}

/// Starts the log. Until the settings are read, only warnings and errors are written.
pub(super) fn start(format: LogFormat) -> Log {
    let first = EnvFilter::try_new("warn").expect("a level");
    let (filter, handle) = reload::Layer::new(first);
    // Off, because a full disk would be reported by a write that panics.
    let log = fmt::layer().with_writer(io::stderr).log_internal_errors(false);
    let log = match format {
        LogFormat::Text => log.with_target(false).with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => {
            std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
            log.json().boxed()
        }
    };
    #[cfg(feature = "otel")]
    let traces = {
        let started = Traces::start();
        let traces = started.as_ref().map_or_else(|_| Traces::none(), Traces::clone);
        // Spans are not for the log, so that its filter holds for it alone.
        tracing_subscriber::registry().with(log.with_filter(filter)).with(traces.layer()).init();
        if let Err(error) = started {
            tracing::error!("traces are not sent: {error}");
        }
        traces
    };
    #[cfg(not(feature = "otel"))]
    tracing_subscriber::registry().with(filter).with(log).init();
    let _ = FORMAT.set(format);
    Log {
        filter: handle,
        #[cfg(feature = "otel")]
        traces,
    }
}

impl Log {
    /// Changes what is logged.
    pub(super) fn set_level(&self, level: &str) -> anyhow::Result<()> {
        // `store migrate` prints which migrations it applied.
        let quiet = "refinery_core=warn".parse().expect("a directive");
        let filter = EnvFilter::try_new(level)?.add_directive(quiet);
        self.filter.reload(filter).context("cannot change the log level")
    }
}

/// Whether the log is text for people.
pub(super) fn is_text() -> bool {
    !matches!(FORMAT.get(), Some(LogFormat::Json))
}

/// Writes why a command has failed.
pub(super) fn say_failure(error: &str) {
    if is_text() {
        eprintln!("keymill: {error}");
    } else {
        tracing::error!("{error}");
    }
}
