//! Traces of `keymill serve`, sent to an OpenTelemetry collector over HTTP with protobuf.
//!
//! `log` adds them to the subscriber, and `serve` sends the last ones when it ends. Everything about them is in the variables of
//! the standard (`OTEL_…`). They are sent only if one of these names a collector; the default of the standard, a collector
//! on this machine, would have every instance without one complain.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::{Request, Response};
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;
use tracing::{Level, Subscriber};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

/// What spans are told from the log by.
const TARGET: &str = "keymill::span";
/// The longest time that one export may take.
const EXPORT_TIME_MAX: Duration = Duration::from_secs(10);

/// Where spans go, if somewhere.
#[derive(Debug, Clone)]
pub(super) struct Traces {
    provider: Option<SdkTracerProvider>,
}

impl Traces {
    /// Begins to send spans, if a collector is named. Must be called within the runtime, which sends them.
    pub(super) fn start() -> Result<Traces, String> {
        let is = |name: &str, value: &str| {
            env::var(name).is_ok_and(|text| text.trim().eq_ignore_ascii_case(value))
        };
        let has_collector = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
            .into_iter()
            .any(|name| env::var(name).is_ok_and(|text| !text.is_empty()));
        if !has_collector || is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(Traces::none());
        }
        let client = OnRuntime {
            runtime: Handle::current(),
            client: HyperClient::with_default_connector(EXPORT_TIME_MAX, None),
            is_failing: AtomicBool::new(false),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_http_client(client)
            .build()
            .map_err(|error| error.to_string())?;
        let mut resource = Resource::builder();
        if !names_service() {
            resource = resource.with_service_name("keymill");
        }
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Traces { provider: Some(provider) })
    }

    /// Nothing is sent.
    pub(super) fn none() -> Traces {
        Traces { provider: None }
    }

    /// What takes in the spans, and nothing else.
    pub(super) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let tracer = self.provider.as_ref()?.tracer("keymill");
        let layer: OpenTelemetryLayer<S, SdkTracer> = tracing_opentelemetry::layer()
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_tracer(tracer);
        Some(layer.with_filter(Targets::new().with_target(TARGET, Level::TRACE)))
    }

    /// Sends what was not sent yet. It waits elsewhere, because the runtime of this task sends it.
    pub(super) async fn finish(self) {
        let Some(provider) = self.provider else { return };
        let ended = tokio::task::spawn_blocking(move || provider.shutdown()).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!("could not send the last traces: {error}");
        }
    }
}

/// Whether the variables give the service a name.
fn names_service() -> bool {
    env::var("OTEL_SERVICE_NAME").is_ok_and(|name| !name.is_empty())
        || env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|text| text.contains("service.name="))
}

/// Sends from the runtime: the thread that asks for it has none.
#[derive(Debug)]
struct OnRuntime {
    runtime: Handle,
    client: HyperClient,
    /// Whether the last export has failed, which is written to the log once.
    is_failing: AtomicBool,
}

#[async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move { client.send_bytes(request).await }).await?;
        let problem = match &sent {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answered {}", answer.status())),
            Err(error) => Some(error.to_string()),
        };
        let was_failing = self.is_failing.swap(problem.is_some(), Ordering::Relaxed);
        if let Some(problem) = problem.filter(|_| !was_failing) {
            tracing::warn!("the collector does not take traces: {problem}");
        }
        sent
    }
}
