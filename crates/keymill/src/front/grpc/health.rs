//! `grpc.health.v1`: whether this instance can serve keys, as `/readyz` says it.
//!
//! It is asked for without a token. Nothing is told but whether; `/readyz` has the reasons.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Frame, Incoming};
use hyper::{Response, StatusCode};
use tokio::time::{Instant, sleep};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::Asked;
use super::admission::decoded;
use super::answers::{self, Steps, framed};
use super::messages::{self, Received};
use super::status;
use super::take_stream::stopped;
use crate::front::http::{Body, Http, Problem};

/// The services whose state is known: all of the server, and the one of the contract.
const SERVICES: [&str; 2] = ["", "keymill.v1.Keymill"];
/// How often a watch looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A watch repeats what it said, so that its connection is not taken for one that is stuck.
const REPEAT_EVERY: Duration = Duration::from_secs(15);

/// `Check`
pub(super) fn check(http: &Http, message: Received) -> Result<HealthCheckResponse, Problem> {
    match asked_for(message)? {
        Some(()) => Ok(state_of(http)),
        None => {
            let detail = format!("only `{}` has a state, and the server as a whole", SERVICES[1]);
            Err(Problem::new(StatusCode::NOT_FOUND, "unknown_service", detail))
        }
    }
}

/// `Watch`
pub(super) async fn watch(
    http: &Http,
    asked: &Asked,
    body: Incoming,
) -> Result<Response<Body>, Problem> {
    let is_known = asked_for(messages::only(&http.state, body).await?)?.is_some();
    let (http, asked) = (http.clone(), asked.clone());
    Ok(answers::stream(Watching { http, asked, is_known, said: None, repeat_at: Instant::now() }))
}

/// Which service a message asks for; `None` where it is not one of those that are known.
fn asked_for(message: Received) -> Result<Option<()>, Problem> {
    let ask: HealthCheckRequest = decoded(message.bytes)?;
    Ok(SERVICES.contains(&ask.service.as_str()).then_some(()))
}

fn state_of(http: &Http) -> HealthCheckResponse {
    let state = &http.state;
    let is_ready = !state.stopping.load(Ordering::Relaxed) && state.service.health().ready;
    let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}

/// A watch, between two of its messages.
struct Watching {
    http: Http,
    asked: Asked,
    is_known: bool,
    /// What it said last.
    said: Option<HealthCheckResponse>,
    repeat_at: Instant,
}

impl Steps for Watching {
    async fn step(mut self) -> (Frame<Bytes>, Option<Watching>) {
        loop {
            let now = match self.is_known {
                true => state_of(&self.http),
                false => HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() },
            };
            if self.said != Some(now) || Instant::now() >= self.repeat_at {
                self.repeat_at = Instant::now() + REPEAT_EVERY;
                self.said = Some(now);
                return (Frame::data(framed(&now).into()), Some(self));
            }
            // What was said last when the server stops is that it does not serve.
            let is_stopping = self.http.state.stopping.load(Ordering::Relaxed);
            if is_stopping {
                let status = self.asked.status(&Problem::stopping());
                return (Frame::trailers(status::headers(&status)), None);
            }
            tokio::select! {
                () = sleep(LOOK_EVERY) => {}
                _ = stopped(&self.http) => {}
            }
        }
    }
}
