//! What one connection does, in counts, and what it is told to do next.
//!
//! `stream`, `under_way` and `redis_connection` count, `sweep` reads the counts and gives orders, `connection` and
//! `redis_connection` obey.
//! Counting reads no clock and sets no timer: it happens for every request.
//!
//! # Invariants
//!
//! - Everything here is written by one thread, the worker that has the connection.
//! - Orders only get stricter.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::Waker;

/// HTTP/2's preface and the head of the SETTINGS that follow it, in bytes.
const HTTP2_OPENING: u64 = 24 + 9;

/// What a connection has done so far.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Whether this is the Redis protocol, whose connection notes itself where commands begin and end.
    is_redis: bool,
    bytes_read: Counter,
    bytes_written: Counter,
    /// Requests whose headers were complete.
    started: Counter,
    /// Those of them whose answer has a status.
    answered: Counter,
    /// Those of them whose answer was handed to hyper to its last byte.
    finished: Counter,
    /// Pieces of answers handed to hyper.
    pieces: Counter,
    asks_over_http2: AtomicBool,
    /// Bytes other than line breaks since the last blank line, which ends a header and a body in chunks.
    /// Over HTTP/1, those that are not the body of a request are the beginning of the next header.
    bytes_since_blank: Counter,
    /// Whether nothing has come since the last line break.
    is_line_blank: AtomicBool,
    /// The length of the last request's body, where it was announced.
    body_len: Counter,
    is_write_blocked: AtomicBool,
    /// Over Redis: whether a part of a command was read.
    is_within_command: AtomicBool,
    /// Over Redis: whether the client may stay without asking for anything.
    may_stay: AtomicBool,
    /// Whether a TLS handshake has begun and is not over. Its bytes are not counted.
    is_shaking_hands: AtomicBool,
    is_lingering: AtomicBool,
    order: AtomicU8,
    task: OnceLock<Waker>,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client's first byte.
    Silent,
    /// The rest of a header, of what opens an HTTP/2 connection, or of a TLS handshake.
    Heading,
    /// The service, which has time limits of its own.
    Answering,
    /// The client, which has not read its answer.
    Unread,
    /// The next request.
    Quiet,
    /// The next command of a client that may stay as long as it likes: programs keep connections to Redis open.
    Kept,
    /// The client's end of a connection whose other end is closed.
    Lingering,
}

/// A phase, and what shows progress within it. Two equal ones mean that nothing has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) phase: Phase,
    started: u64,
    finished: u64,
    sent: u64,
}

/// What a connection is told, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Answer requests.
    Serve,
    /// Answer the request that is there or on its way, and say that it is the last.
    Close,
    /// Begin nothing new, and end when nothing is under way.
    End,
    /// End now.
    Cut,
}

impl Activity {
    /// That of a connection that speaks the Redis protocol.
    pub(super) fn of_redis() -> Activity {
        Activity { is_redis: true, ..Activity::default() }
    }

    /// Counts what was read.
    pub(super) fn read(&self, bytes: &[u8]) {
        if self.is_redis {
            self.bytes_read.add(bytes.len() as u64);
            return;
        }
        self.look_for_blank_lines(bytes);
        // A line break behind a request is part of no header; clients of old send one.
        if bytes.len() <= 2 && bytes.iter().all(|byte| b"\r\n".contains(byte)) {
            return;
        }
        self.bytes_read.add(bytes.len() as u64);
    }

    /// Counts what was written.
    pub(super) fn wrote(&self, bytes: usize) {
        self.bytes_written.add(bytes as u64);
        self.is_write_blocked.store(false, Ordering::Relaxed);
    }

    /// Notes that the client takes nothing more at present.
    pub(super) fn write_blocked(&self) {
        self.is_write_blocked.store(true, Ordering::Relaxed);
    }

    /// Notes that a TLS handshake begins, or is over.
    pub(super) fn shakes_hands(&self, is_shaking: bool) {
        self.is_shaking_hands.store(is_shaking, Ordering::Relaxed);
    }

    /// Notes, of a connection that speaks the Redis protocol, whether what was read ends within a command, and
    /// whether the client may stay without asking for anything.
    pub(super) fn waits_for_commands(&self, is_within_command: bool, may_stay: bool) {
        self.is_within_command.store(is_within_command, Ordering::Relaxed);
        self.may_stay.store(may_stay, Ordering::Relaxed);
    }

    /// Notes that this end is closed and the client's is not.
    pub(super) fn lingers(&self) {
        self.is_lingering.store(true, Ordering::Relaxed);
    }

    /// Counts a request whose header is complete.
    pub(super) fn request_started(&self, is_http2: bool) {
        self.started.add(1);
        self.body_len.set(0);
        self.asks_over_http2.store(is_http2, Ordering::Relaxed);
    }

    /// Notes how much of what comes behind the header of the request is its body.
    pub(super) fn body_announced(&self, len: u64) {
        self.body_len.set(len);
    }

    /// Counts a request that has its answer, or never will have one.
    pub(super) fn request_answered(&self) {
        self.answered.add(1);
    }

    /// Counts an answer that is made to its end, or given up.
    pub(super) fn request_finished(&self) {
        self.finished.add(1);
    }

    /// Counts a piece of an answer.
    pub(super) fn piece_made(&self) {
        self.pieces.add(1);
    }

    /// Whether this is HTTP/2: only there the server writes before it was asked anything.
    pub(super) fn is_http2(&self) -> bool {
        let has_written_first = self.started.get() == 0 && self.bytes_written.get() > 0;
        !self.is_redis && (self.asks_over_http2.load(Ordering::Relaxed) || has_written_first)
    }

    /// What the connection waits for, and how far it is.
    pub(super) fn moment(&self) -> Moment {
        // Over HTTP/2 the bytes of a connection tell nothing: the client may have its PINGs
        // answered for ever without reading a key.
        let sent = if self.is_http2() { 0 } else { self.bytes_written.get() };
        Moment {
            phase: self.phase(),
            started: self.started.get(),
            finished: self.finished.get(),
            sent: sent + self.pieces.get(),
        }
    }

    /// What it is told.
    pub(super) fn order(&self) -> Order {
        match self.order.load(Ordering::Relaxed) {
            0 => Order::Serve,
            1 => Order::Close,
            2 => Order::End,
            _ => Order::Cut,
        }
    }

    /// Tells it something, and wakes it to hear it. An order milder than the last is ignored.
    pub(super) fn tell(&self, order: Order) {
        if order > self.order() {
            self.order.store(order as u8, Ordering::Relaxed);
            if let Some(task) = self.task.get() {
                task.wake_by_ref();
            }
        }
    }

    /// Names the task that obeys. It is the same at every poll: a task of tokio keeps its waker.
    pub(super) fn obeyed_by(&self, task: &Waker) {
        let known = self.task.get_or_init(|| task.clone());
        debug_assert!(known.will_wake(task), "a connection is one task");
    }

    fn phase(&self) -> Phase {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let (started, answered) = (self.started.get(), self.answered.get());
        if is(&self.is_lingering) {
            Phase::Lingering
        } else if started != answered {
            Phase::Answering
        } else if is(&self.is_shaking_hands) {
            Phase::Heading
        } else if self.bytes_read.get() == 0 {
            if is(&self.may_stay) { Phase::Kept } else { Phase::Silent }
        } else if answered != self.finished.get() {
            Phase::Unread
        } else if self.is_http2() {
            // Nothing that passes below requests counts, so that PINGs cannot keep it open.
            let has_opened = started > 0 || self.bytes_read.get() >= HTTP2_OPENING;
            if has_opened { Phase::Quiet } else { Phase::Heading }
        } else if is(&self.is_write_blocked) {
            Phase::Unread
        } else if self.is_redis {
            match (is(&self.is_within_command), is(&self.may_stay)) {
                (true, _) => Phase::Heading,
                (false, true) => Phase::Kept,
                (false, false) => Phase::Quiet,
            }
        } else if started == 0 || self.bytes_since_blank.get() > self.body_len.get() {
            Phase::Heading
        } else {
            Phase::Quiet
        }
    }

    fn look_for_blank_lines(&self, bytes: &[u8]) {
        if bytes.ends_with(b"\r\n\r\n") {
            // Nearly every read: a request without a body.
            self.bytes_since_blank.set(0);
            self.is_line_blank.store(true, Ordering::Relaxed);
            return;
        }
        let mut since_blank = self.bytes_since_blank.get();
        let mut is_line_blank = self.is_line_blank.load(Ordering::Relaxed);
        for byte in bytes {
            match byte {
                b'\n' if is_line_blank => since_blank = 0,
                b'\n' => is_line_blank = true,
                b'\r' => {}
                _ => (since_blank, is_line_blank) = (since_blank + 1, false),
            }
        }
        self.bytes_since_blank.set(since_blank);
        self.is_line_blank.store(is_line_blank, Ordering::Relaxed);
    }
}

/// A count with one writer, which so needs no atomic addition.
#[derive(Debug, Default)]
struct Counter {
    count: AtomicU64,
}

impl Counter {
    fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    fn set(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
