//! Spans: requests as an OpenTelemetry collector sees them.
//!
//! The fronts begin one around the work on a request, and name it when they know what it was. They hold no keys, no paths
//! and no tokens. Without the feature `otel` there are none.

use hyper::{HeaderMap, StatusCode};
use tracing::Span;

use crate::metrics::{Protocol, Route};

/// Whether a request asks for a span also where it would be answered too fast to be worth one.
#[inline]
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    cfg!(feature = "otel") && headers.contains_key("traceparent")
}

/// Begins a span, which continues the trace that the headers name.
#[cfg(feature = "otel")]
pub(super) fn begin(headers: Option<&HeaderMap>) -> Span {
    use opentelemetry::propagation::TextMapPropagator;
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use tracing::field::Empty;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let span = tracing::trace_span!(
        target: "keymill::span",
        parent: None,
        "request",
        otel.kind = "server",
        otel.status_code = Empty,
        network.protocol.name = Empty,
        http.response.status_code = Empty,
    );
    if let Some(headers) = headers.filter(|headers| !span.is_disabled() && is_wanted(headers)) {
        let context =
            TraceContextPropagator::new().extract(&opentelemetry_http::HeaderExtractor(headers));
        // It fails only for a span that has begun, which this one has not.
        let _ = span.set_parent(context);
    }
    span
}

#[cfg(not(feature = "otel"))]
pub(super) fn begin(_: Option<&HeaderMap>) -> Span {
    Span::none()
}

/// Gives a name to a span that has begun, which a field `otel.name` would come too late for.
#[cfg(feature = "otel")]
fn rename(span: &Span, name: &'static str) {
    use opentelemetry::trace::TraceContextExt;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    span.context().span().update_name(name);
}

#[cfg(not(feature = "otel"))]
fn rename(_: &Span, _: &'static str) {}

/// Names the span that this is in, and says what came of it.
pub(super) fn end((protocol, route): (Protocol, Route), status: StatusCode) {
    if !cfg!(feature = "otel") {
        return;
    }
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    rename(&span, route.name());
    span.record("network.protocol.name", protocol.name());
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "error");
    }
}
