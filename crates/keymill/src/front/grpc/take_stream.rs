//! `TakeStream`: keys for a client that keeps a cache of them, as many as it has room for.
//!
//! The answer is a body that is made while it is read: hyper asks for more while the connection has room, and each piece
//! waits for credit, for the budget and for its turn. So a client that gives credit and reads nothing holds two pieces.
//!
//! # Invariants
//!
//! - A key that was made is in the piece that is returned by the same poll. A take that is dropped before gives back
//!   what it drew.
//! - Nothing is taken without credit, nor with a token that is not valid any more: the caller is admitted again before
//!   every piece, and once a second while there is nothing to send.
//! - A caller without a token is counted as if it had sent a request for every `count_max` keys.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use keymill_engine::operations::turn::turn;
use keymill_engine::operations::{Service, ServiceError, Space, Taken, check_caller};
use keymill_engine::space::Kind;
use keymill_proto::v1::TakeStreamRequest;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Asked;
use super::admission::{Admitted, Standing, decoded};
use super::answers::{self, Steps};
use super::batches::{AROUND, Batches};
use super::messages::{HEAD, Messages};
use super::status;
use super::take::named;
use crate::access::limits::Exceeded;
use crate::access::{Caller, Counted};
use crate::front::admission::exceeded;
use crate::front::http::budget::{Account, PIECE_BYTES};
use crate::front::http::request_body::BODY_TIME_MAX;
use crate::front::http::{Body, Http, Problem};

/// The longest message of a client: two names, and a number.
const REQUEST_LEN_MAX: usize = 4 << 10;
/// How often a stream with nothing to send looks whether it may go on.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A stream that has sent nothing for so long sends an empty batch, so that it is not taken for one that is stuck.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Begins a stream. Its status line is sent at once: a client may wait for it before it sends its first message.
pub(super) fn begin(
    http: &Http,
    asked: &Asked,
    admitted: Admitted,
    request: Request<Incoming>,
) -> Response<Body> {
    answers::stream(Taking {
        http: http.clone(),
        asked: asked.clone(),
        standing: Standing::new(http, &admitted, request.headers()),
        counted_keys: http.state.service.limits().count_max,
        admitted,
        messages: Messages::new(request.into_body()),
        is_closed: false,
        target: None,
        credit: 0,
        account: http.state.budget.open(http.state.line.clone()),
        alive_at: Instant::now() + ALIVE_EVERY,
    })
}

/// A stream, between two of its pieces.
struct Taking {
    http: Http,
    asked: Asked,
    admitted: Admitted,
    /// What it is admitted by again.
    standing: Standing,
    /// How many keys are left of the request that was counted last, where there is no token. The call itself is the first.
    counted_keys: u32,
    messages: Messages,
    /// The client has closed its side.
    is_closed: bool,
    /// Known with the first message.
    target: Option<Target>,
    /// How many keys the client has room for.
    credit: u64,
    account: Arc<Account>,
    /// When it shows that it is alive, if nothing is sent until then.
    alive_at: Instant,
}

/// What the keys are taken from, and who they are recorded for.
struct Target {
    space: Arc<Space>,
    caller: String,
    /// What a key takes in a message, at most.
    around: usize,
}

impl Steps for Taking {
    async fn step(mut self) -> (Frame<Bytes>, Option<Taking>) {
        let next = match self.asked.deadline {
            None => self.next().await,
            Some(deadline) => tokio::select! {
                next = self.next() => next,
                () = sleep_until(deadline) => Err(Problem::deadline_exceeded()),
            },
        };
        match next {
            Ok(Some(piece)) => {
                self.alive_at = Instant::now() + ALIVE_EVERY;
                (Frame::data(piece), Some(self))
            }
            Ok(None) => (Frame::trailers(status::ok()), None),
            Err(problem) => (Frame::trailers(status::headers(&self.asked.status(&problem))), None),
        }
    }
}

impl Taking {
    /// The next piece; `None` where the stream has come to its end.
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        if self.target.is_none() {
            self.open().await?;
        }
        loop {
            if self.credit == 0 {
                if self.is_closed {
                    return Ok(None);
                }
                if self.wait().await? {
                    // An empty message.
                    return Ok(Some(Bytes::from_static(&[0; HEAD])));
                }
            } else {
                self.listen().await?;
                if let Some(piece) = self.piece().await? {
                    return Ok(Some(piece));
                }
            }
        }
    }

    /// Reads the first message.
    async fn open(&mut self) -> Result<(), Problem> {
        let first = tokio::select! {
            first = timeout(BODY_TIME_MAX, self.messages.next(REQUEST_LEN_MAX)) => first,
            problem = stopped(&self.http) => return Err(problem),
        };
        let first = first.map_err(|_| Problem::body_too_slow())??;
        let missing = || Problem::bad_body("the stream has no first message".to_owned());
        let first = self.admitted.message(&self.http, first.ok_or_else(missing)?)?;
        let TakeStreamRequest { space, caller, credit } = first;
        named(&space)?;
        check_caller(&caller)?;
        let caller = self.admitted.caller.name(&caller, &space).into_owned();
        let space = self.http.state.service.space(&space).await?;
        space.check_take()?;
        // Imported keys may have any lengths, and where the length changes a new message begins.
        let around = if space.record().definition.kind == Kind::Pooled { AROUND } else { 0 };
        self.target = Some(Target { space, caller, around });
        self.credit = credit.into();
        Ok(())
    }

    /// Waits for credit. Returns whether it is time to show that the stream is alive.
    async fn wait(&mut self) -> Result<bool, Problem> {
        let message = tokio::select! {
            message = self.messages.next(REQUEST_LEN_MAX) => message?,
            problem = stopped(&self.http) => return Err(problem),
            () = sleep(LOOK_EVERY) => {
                self.admit()?;
                return Ok(Instant::now() >= self.alive_at);
            }
        };
        self.hear(message)?;
        Ok(false)
    }

    /// Takes in a message that is there already.
    async fn listen(&mut self) -> Result<(), Problem> {
        if self.is_closed {
            return Ok(());
        }
        let message = {
            let mut next = pin!(self.messages.next(REQUEST_LEN_MAX));
            poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await
        };
        match message {
            Poll::Ready(message) => self.hear(message?),
            Poll::Pending => Ok(()),
        }
    }

    fn hear(&mut self, message: Option<Bytes>) -> Result<(), Problem> {
        let Some(message) = message else {
            self.is_closed = true;
            return Ok(());
        };
        let more: TakeStreamRequest = decoded(message)?;
        if !more.space.is_empty() || !more.caller.is_empty() {
            let detail = "only the first message of a stream may have `space` and `caller`; open \
                          another stream for another keyspace";
            return Err(Problem::bad_parameter(detail.to_owned()));
        }
        self.credit = self.credit.saturating_add(more.credit.into());
        Ok(())
    }

    /// Makes the next piece, when there is room for it and it is this stream's turn; `None` where the limits of the
    /// token have to be waited for.
    async fn piece(&mut self) -> Result<Option<Bytes>, Problem> {
        let room = self.account.reserve(None).await;
        turn().await;
        let caller = self.admit()?;
        let service = &self.http.state.service;
        let Target { space, caller: name, around } =
            self.target.as_ref().expect("it was opened before");
        let key_len = space.key_len_max().max(1);
        let fits = (PIECE_BYTES - AROUND) / (key_len + around);
        let fits = u32::try_from(fits.max(1)).unwrap_or(u32::MAX).min(service.limits().count_max);
        let mut wanted = fits.min(u32::try_from(self.credit).unwrap_or(u32::MAX));
        let has_token = caller.token_name().is_some();
        if !has_token {
            if self.counted_keys == 0 {
                if let Err(time) = self.standing.count(&self.http, &caller)? {
                    drop(room);
                    sleep(time.min(LOOK_EVERY)).await;
                    return Ok(None);
                }
                self.counted_keys = service.limits().count_max;
            }
            wanted = wanted.min(self.counted_keys);
        }
        let (count, counted) = match affordable(&caller, wanted)? {
            Ok(affordable) => affordable,
            Err(time) => {
                drop(room);
                // Not longer, so that it hears of a stop and of a revocation.
                sleep(time.min(LOOK_EVERY)).await;
                return Ok(None);
            }
        };
        let (taken, batches) = match take(service, space, count, name).await {
            // While the store is unreachable, what is left in memory is sent, also if it fills no piece.
            Err(ServiceError::NoKeysReady { .. })
                if (1..count.into()).contains(&space.at_hand()) =>
            {
                let rest = u32::try_from(space.at_hand()).unwrap_or(count).clamp(1, count);
                take(service, space, rest, name).await?
            }
            taken => taken?,
        };
        counted.keep(taken.count);
        self.credit = self.credit.saturating_sub(taken.count.into());
        if !has_token {
            self.counted_keys = self.counted_keys.saturating_sub(taken.count);
        }
        Ok(Some(room.hold(batches.into_messages(taken.expires_at))))
    }

    /// The caller, if it may still take, and the server goes on.
    fn admit(&self) -> Result<Caller, Problem> {
        if self.http.state.stopping.load(Ordering::Relaxed) {
            return Err(Problem::stopping());
        }
        let target = self.target.as_ref().expect("it was opened before");
        self.standing.check(&self.http, &target.space.name)
    }
}

/// Takes keys: how many and until when, and packed.
async fn take(
    service: &Service,
    space: &Arc<Space>,
    count: u32,
    caller: &str,
) -> Result<(Taken, Batches), ServiceError> {
    let mut batches = Batches::with_room(space.key_len_max() * count as usize);
    let taken = service.take(space, count, caller, |key| batches.add(key)).await?;
    Ok((taken, batches))
}

/// How many keys the limits of a token allow now, at most so many, which are counted; or how long to wait. A quota that
/// is used up is an error.
fn affordable(caller: &Caller, wanted: u32) -> Result<Result<(u32, Counted), Duration>, Problem> {
    let mut count = wanted;
    loop {
        match caller.count(count, false) {
            Ok(counted) => return Ok(Ok((count, counted))),
            Err(Exceeded::Rate { wait, .. }) => return Ok(Err(wait)),
            Err(Exceeded::Burst { max }) if (1..count).contains(&max) => count = max,
            Err(Exceeded::Quota { left, .. }) if (1..u64::from(count)).contains(&left) => {
                count = u32::try_from(left).unwrap_or(count);
            }
            Err(limit) => return Err(exceeded(limit)),
        }
    }
}

/// Resolves when the server is told to stop.
pub(super) async fn stopped(http: &Http) -> Problem {
    let state = &http.state;
    let mut told = pin!(state.stop_told.notified());
    // Before the look, so that nothing is missed in between.
    told.as_mut().enable();
    if !state.stopping.load(Ordering::Relaxed) {
        told.await;
    }
    Problem::stopping()
}
