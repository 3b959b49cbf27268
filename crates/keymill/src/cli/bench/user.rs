//! A user: takes keys again and again on a connection of its own, as long as it is wanted.
//!
//! `worker` starts users. A request that fails is counted and not repeated; after that, a user waits for a moment, and
//! connects anew if it must.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep};

use super::fault::Fault;
use super::target::{Link, Server};
use super::told::{Asked, Told};
use super::worker::Worker;

/// The pause after a failure: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long to wait where all keys are asked for, but not answered yet.
const QUOTA_PAUSE: Duration = Duration::from_millis(5);
/// A connection that was unused for longer is not used again: servers close those.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// One user.
struct User<'a> {
    worker: &'a Worker,
    server: &'a Server,
    link: Option<Link>,
    used: Instant,
    time_limit: TimeLimit,
}

/// A time limit for one thing after the other. Its timer is set anew only when it goes off, and not for each of them.
struct TimeLimit {
    timer: Pin<Box<Sleep>>,
}

pub(super) async fn run(worker: Rc<Worker>, number: usize) {
    let shared = &worker.shared;
    let mut user = User {
        worker: &worker,
        server: shared.target.server_of(number),
        link: None,
        used: Instant::now(),
        time_limit: TimeLimit { timer: Box::pin(sleep(shared.target.time_max)) },
    };
    let mut pause = PAUSE_MIN;
    while shared.wants(number) {
        let due = match &shared.pace {
            None => None,
            Some(pace) => match pace.next().await {
                Some(request) => Some(shared.begun + pace.rate.due_at(request)),
                None => return,
            },
        };
        let Some(asked) = shared.claim() else {
            sleep(QUOTA_PAUSE).await;
            continue;
        };
        if user.round(asked, due).await {
            pause = PAUSE_MIN;
        } else if due.is_none() || user.link.is_none() {
            // At a fixed rate, a pause after a refusal would only make the next request late.
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        worker.deliver().await;
    }
}

impl User<'_> {
    /// Sends requests together, and waits for their answers. Returns whether all went well.
    async fn round(&mut self, asked: Asked, due: Option<Instant>) -> bool {
        let shared = &self.worker.shared;
        let (target, worker) = (&shared.target, self.worker);
        if self.link.is_some() && self.used.elapsed() > IDLE_MAX {
            self.link = None;
        }
        if self.link.is_none() {
            let begun = Instant::now();
            let connect = target.connect(self.server);
            let failed = match self.time_limit.within(begun + target.time_max, connect).await {
                Some(Ok(link)) => {
                    self.link = Some(link);
                    None
                }
                Some(Err(fault)) => Some(fault),
                None => Some(Fault::timeout(target.time_max)),
            };
            if let Some(fault) = failed {
                Told::new(worker, begun).broken(asked, fault);
                shared.settle(asked, 0);
                return false;
            }
        }
        let link = self.link.as_mut().expect("it was connected");
        let begun = Instant::now();
        let mut told = Told::new(worker, due.unwrap_or(begun));
        let round = target.round(self.server, link, asked, &mut told);
        match self.time_limit.within(begun + target.time_max, round).await {
            Some(Ok(())) if link.is_open() => {}
            Some(Ok(())) => self.link = None,
            Some(Err(fault)) => {
                told.broken(asked, fault);
                self.link = None;
            }
            None => {
                told.broken(asked, Fault::timeout(target.time_max));
                self.link = None;
            }
        }
        self.used = begun;
        shared.settle(asked, told.received);
        told.is_well
    }
}

impl TimeLimit {
    /// Waits for something until a point in time, which is not before that of the last call.
    async fn within<F: Future>(&mut self, end: Instant, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let end = tokio::time::Instant::from_std(end);
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            while self.timer.as_mut().poll(context).is_ready() {
                if self.timer.deadline() >= end {
                    return Poll::Ready(None);
                }
                self.timer.as_mut().reset(end);
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_time_limit_holds_for_each_thing_anew() {
        let second = Duration::from_secs(1);
        let now = || tokio::time::Instant::now().into_std();
        let mut limit = TimeLimit { timer: Box::pin(sleep(2 * second)) };
        for _ in 0..5 {
            let within = limit.within(now() + 2 * second, sleep(second)).await;
            assert_eq!(within, Some(()));
        }
        let begin = tokio::time::Instant::now();
        assert_eq!(limit.within(now() + 2 * second, sleep(9 * second)).await, None);
        let took = begin.elapsed();
        assert!(took >= 2 * second && took < 3 * second, "{took:?}");
    }
}
