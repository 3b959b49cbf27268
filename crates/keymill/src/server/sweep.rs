//! The sweep: one look at all connections of a worker, a few times a second, which ends those that
//! have let a time limit pass.
//!
//! Each worker has one. A limit is kept to within a sweep's period, and costs a request nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ServerLimits;
use super::activity::{Activity, Moment, Order, Phase};
use super::connection::Observed;

/// How long a connection may take to end once it has nothing to do and was told so.
const ENDING_TIME_MAX: Duration = Duration::from_secs(2);
/// How often a sweep is made, at most and at least.
const PERIODS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(500)];

/// The connections of one worker.
#[derive(Debug)]
pub(super) struct Sweep {
    limits: ServerLimits,
    /// What all of them were told.
    order: Order,
    connections: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    served: Arc<dyn Observed>,
    last: LastLook,
}

/// What was last seen of a connection.
#[derive(Debug)]
struct LastLook {
    seen: Moment,
    since: Instant,
    /// It was told to end because it was idle.
    is_idle: bool,
}

impl Sweep {
    pub(super) fn new(limits: ServerLimits) -> Sweep {
        Sweep { limits, order: Order::Serve, connections: Vec::new() }
    }

    /// How often to sweep: often enough for the shortest limit.
    pub(super) fn period(&self) -> Duration {
        let limits = &self.limits;
        let shortest =
            limits.first_byte_time_max.min(limits.header_time_max).min(limits.idle_time_max);
        let shortest = limits.redis_idle_time_max.map_or(shortest, |idle| idle.min(shortest));
        (shortest / 4).clamp(PERIODS[0], PERIODS[1])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Watches a new connection.
    pub(super) fn add(&mut self, served: Arc<dyn Observed>, now: Instant) {
        served.activity().tell(self.order);
        let last = LastLook::new(served.activity(), now);
        self.connections.push(Watched { served, last });
    }

    /// Tells all connections, also those to come.
    pub(super) fn tell_all(&mut self, order: Order) {
        self.order = order;
        for connection in &self.connections {
            connection.served.activity().tell(order);
        }
    }

    /// Looks at all of them, and forgets those that are gone.
    pub(super) fn sweep(&mut self, now: Instant) {
        let limits = self.limits;
        self.connections.retain_mut(|connection| {
            connection.last.again(connection.served.activity(), now, limits);
            // The task of a connection that is gone has let go of it.
            Arc::strong_count(&connection.served) > 1
        });
    }
}

impl LastLook {
    fn new(activity: &Activity, now: Instant) -> LastLook {
        LastLook { seen: activity.moment(), since: now, is_idle: false }
    }

    /// Looks again, and gives an order where a limit has passed.
    fn again(&mut self, activity: &Activity, now: Instant, limits: ServerLimits) {
        let seen = activity.moment();
        if seen != self.seen {
            (self.seen, self.since) = (seen, now);
            return;
        }
        let time_max = match seen.phase {
            Phase::Answering => return,
            Phase::Silent => limits.first_byte_time_max,
            Phase::Heading => limits.header_time_max,
            Phase::Quiet | Phase::Kept if self.is_idle => ENDING_TIME_MAX,
            Phase::Kept => match limits.redis_idle_time_max {
                Some(time_max) => time_max,
                None => return,
            },
            Phase::Quiet | Phase::Unread => limits.idle_time_max,
            Phase::Lingering => ENDING_TIME_MAX,
        };
        if now.saturating_duration_since(self.since) < time_max {
            return;
        }
        if matches!(seen.phase, Phase::Quiet | Phase::Kept) && !self.is_idle {
            activity.tell(Order::End);
            (self.is_idle, self.since) = (true, now);
        } else {
            activity.tell(Order::Cut);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_BYTE: u64 = 10;
    const HEADER: u64 = 30;
    const IDLE: u64 = 75;

    #[test]
    fn each_phase_has_its_limit() {
        check(|_| {}, Order::Cut, FIRST_BYTE);
        check(|it| it.read(b"\r\n"), Order::Cut, FIRST_BYTE);
        check(|it| it.read(b"GET / HT"), Order::Cut, HEADER);
        check(|it| it.read(b"PRI"), Order::Cut, HEADER);
        check(|it| it.shakes_hands(true), Order::Cut, HEADER);
        let shaken = |it: &Activity| {
            it.shakes_hands(true);
            it.shakes_hands(false);
        };
        check(shaken, Order::Cut, FIRST_BYTE);
        check(answered, Order::End, IDLE);
    }

    #[test]
    fn the_service_may_take_its_time_and_a_client_that_does_not_read_may_not() {
        check(asked, Order::Serve, 86_400);
        let unread = |it: &Activity| {
            answered(it);
            it.write_blocked();
        };
        check(unread, Order::Cut, IDLE);
    }

    #[test]
    fn a_further_request_has_its_own_time_for_its_header_and_a_blank_line_begins_none() {
        let further = |bytes: &'static [u8]| {
            move |it: &Activity| {
                answered(it);
                it.read(bytes);
            }
        };
        check(further(b"GET / HT"), Order::Cut, HEADER);
        check(further(b"\r\n"), Order::End, IDLE);
    }

    #[test]
    fn a_header_that_begins_behind_a_request_has_its_time_and_a_body_is_no_header() {
        let together = |reads: &'static [&'static [u8]], body_len: u64| {
            move |it: &Activity| {
                it.read(reads[0]);
                it.request_started(false);
                it.body_announced(body_len);
                reads[1..].iter().for_each(|bytes| it.read(bytes));
                it.request_answered();
                it.request_finished();
                it.wrote(100);
            }
        };
        check(together(&[b"GET / HTTP/1.1\r\n\r\nGET / HT"], 0), Order::Cut, HEADER);
        check(together(&[b"GET /\n\n", b"G"], 0), Order::Cut, HEADER);
        check(together(&[b"POST /\r\n\r\n{}"], 2), Order::End, IDLE);
        check(together(&[b"POST /\r\n\r\n", b"{}\r\n"], 2), Order::End, IDLE);
        check(together(&[b"POST /\r\n\r\n{}P"], 2), Order::Cut, HEADER);
        // A body in chunks announces no length, and ends with a blank line as headers do.
        let chunks = together(&[b"POST /\r\n\r\n", b"2\r\n{}\r\n", b"0\r\n\r", b"\n"], 0);
        check(chunks, Order::End, IDLE);
    }

    #[test]
    fn an_idle_connection_that_does_not_end_is_cut_off() {
        let activity = Activity::default();
        answered(&activity);
        let start = Instant::now();
        let mut last = LastLook::new(&activity, start);
        last.again(&activity, start + Duration::from_secs(IDLE), limits());
        assert_eq!(activity.order(), Order::End);
        last.again(&activity, start + Duration::from_secs(IDLE) + ENDING_TIME_MAX, limits());
        assert_eq!(activity.order(), Order::Cut);
    }

    #[test]
    fn over_http2_neither_the_opening_nor_pings_count_as_activity() {
        let opening = |it: &Activity| {
            it.read(&[b'x'; 24]);
            it.wrote(9);
        };
        check(opening, Order::Cut, HEADER);
        let activity = Activity::default();
        opening(&activity);
        activity.read(&[0; 9]);
        let settled = activity.moment();
        assert_eq!(settled.phase, Phase::Quiet);
        activity.read(&[6; 17]);
        activity.wrote(17);
        activity.write_blocked();
        assert_eq!(activity.moment(), settled, "a PING and its answer");
        activity.request_started(true);
        activity.request_answered();
        let unread = activity.moment();
        assert_eq!(unread.phase, Phase::Unread);
        activity.wrote(17);
        assert_eq!(activity.moment(), unread, "a PING beside an answer that is not read");
        activity.piece_made();
        assert_ne!(activity.moment(), unread, "DATA");
    }

    #[test]
    fn a_client_of_redis_may_stay_once_it_is_known_and_not_in_the_middle_of_a_command() {
        let redis = |is_within: bool, may_stay: bool| {
            let activity = Activity::of_redis();
            activity.read(b"*1\r\n$4\r\nPING\r\n*");
            activity.waits_for_commands(is_within, may_stay);
            activity
        };
        check_of(redis(false, false), Order::End, IDLE);
        check_of(redis(true, true), Order::Cut, HEADER);
        check_of(redis(false, true), Order::Serve, 86_400);
        let unread = redis(false, true);
        unread.write_blocked();
        check_of(unread, Order::Cut, IDLE);
        // Before its first byte, too.
        let silent = |may_stay| {
            let activity = Activity::of_redis();
            activity.waits_for_commands(false, may_stay);
            activity
        };
        check_of(silent(false), Order::Cut, FIRST_BYTE);
        check_of(silent(true), Order::Serve, 86_400);
    }

    #[test]
    fn a_limit_for_idle_clients_of_redis_holds_where_it_is_set() {
        let activity = Activity::of_redis();
        activity.read(b"*1");
        activity.waits_for_commands(false, true);
        let limits = ServerLimits { redis_idle_time_max: Some(Duration::from_secs(5)), ..limits() };
        let start = Instant::now();
        let mut last = LastLook::new(&activity, start);
        last.again(&activity, start + Duration::from_secs(4), limits);
        assert_eq!(activity.order(), Order::Serve);
        last.again(&activity, start + Duration::from_secs(5), limits);
        assert_eq!(activity.order(), Order::End);
    }

    fn asked(activity: &Activity) {
        activity.read(b"GET / HTTP/1.1\r\n\r\n");
        activity.request_started(false);
    }

    fn answered(activity: &Activity) {
        asked(activity);
        activity.request_answered();
        activity.request_finished();
        activity.wrote(100);
    }

    fn limits() -> ServerLimits {
        ServerLimits {
            first_byte_time_max: Duration::from_secs(FIRST_BYTE),
            header_time_max: Duration::from_secs(HEADER),
            idle_time_max: Duration::from_secs(IDLE),
            ..ServerLimits::default()
        }
    }

    /// A connection that has done this, and nothing more, is told this once so many seconds have
    /// passed, and nothing before.
    #[track_caller]
    fn check(act: impl FnOnce(&Activity), order: Order, seconds: u64) {
        let activity = Activity::default();
        act(&activity);
        check_of(activity, order, seconds);
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "nothing else happens to it")]
    fn check_of(activity: Activity, order: Order, seconds: u64) {
        let start = Instant::now();
        let mut last = LastLook::new(&activity, start);
        last.again(&activity, start + Duration::from_secs(seconds - 1), limits());
        assert_eq!(activity.order(), Order::Serve);
        last.again(&activity, start + Duration::from_secs(seconds), limits());
        assert_eq!(activity.order(), order);
    }
}
