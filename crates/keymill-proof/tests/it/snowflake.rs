//! Snowflake IDs of real processes that are killed, paused for longer than a window and stopped,
//! whose clocks are set, and whose store is unreachable or is rolled back: no ID comes twice, and those
//! of one worker come in their order.

mod away;
mod clocks;
mod harmed;
mod layout;
mod no_free_worker;
mod paused_past_window;
mod restored;

use keymill_proof::{Answer, Deployment, Received, Server, ServerSpec, Taken, binary};

use layout::{Layout, id, ids};

/// The space of all these tests.
const SPACE: &str = "ids";

/// An instance that looks at its store again and again, and soon says when it has no IDs.
fn instance(deployment: &Deployment, data_dir: &str) -> ServerSpec {
    deployment.server(data_dir).heartbeat(0.2).env("KEYMILL_LIMITS_WAIT_SECONDS", "0.5")
}

/// The same with a fault: it goes on with its worker after the window on record is over, which is
/// of a second, while it believes in as long a window as it asks for.
fn endless(spec: ServerSpec) -> ServerSpec {
    ServerSpec { binary: binary("faulty"), ..spec.arg("--fault").arg("endless-window") }
}

/// The window that those ask for: none of them comes to its end.
const ENDLESS_SECONDS: u64 = 3_600;

/// Makes the space.
#[track_caller]
fn make(server: &Server, layout: Layout, window_seconds: u64) {
    let body =
        format!(r#"{{"kind":"snowflake","layout":"{layout}","window_seconds":{window_seconds}}}"#);
    super::put(server, SPACE, &body);
}

/// One take, on a connection of its own.
#[track_caller]
fn take(received: &mut Received, server: &Server, count: u32) -> Answer {
    let answer = super::take(server, SPACE, count);
    received.note(0, server.address(), count, &Taken::from(&answer));
    answer
}

/// Whether a take gave IDs.
#[track_caller]
fn gives(received: &mut Received, server: &Server, count: u32) -> bool {
    take(received, server, count).status == 200
}

/// Takes until that is refused; the refusal.
#[track_caller]
fn refusal(received: &mut Received, server: &Server) -> Answer {
    let mut refusal = None;
    super::eventually("it is refused", || {
        let answer = take(received, server, 10);
        refusal = Some(answer).filter(|answer| answer.status != 200);
        refusal.is_some()
    });
    refusal.unwrap()
}

/// What an instance says that finds no worker free. A store that is slow may be the first thing
/// that it says, but it gives no ID.
#[track_caller]
fn turned_away(received: &mut Received, server: &Server) -> Answer {
    let mut refusal = None;
    super::eventually("it finds no worker", || {
        let answer = take(received, server, 1);
        assert_eq!(answer.status, 503, "{}", server.log());
        refusal = Some(answer).filter(|answer| answer.text().contains("\"no_worker\""));
        refusal.is_some()
    });
    refusal.unwrap()
}

/// A figure of the space, as the instance tells it.
fn metric(server: &Server, name: &str) -> Option<u64> {
    let told = super::get(server, "/metrics");
    let begin = format!("{name}{{space=\"{SPACE}\"}} ");
    let value = told.lines().find_map(|line| line.strip_prefix(&begin)).map(str::parse);
    value.and_then(Result::ok)
}

/// How far the windows of the space reach, in milliseconds since its epoch.
#[track_caller]
fn highest_end(server: &Server) -> u64 {
    let shown = super::get(server, &format!("/v1/spaces/{SPACE}"));
    super::number(&super::json(&shown)["next"])
}
