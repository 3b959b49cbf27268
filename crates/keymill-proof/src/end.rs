//! The end of something: threads wait for it, and a panic brings it about too.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// An end that comes once.
#[derive(Debug, Default)]
pub struct End {
    has_come: Mutex<bool>,
    coming: Condvar,
}

/// Brings the end about when it is dropped.
#[derive(Debug)]
pub struct EndsWhenDropped<'a> {
    end: &'a End,
    only_by_panic: bool,
}

impl End {
    /// Brings it about.
    pub fn set(&self) {
        *self.has_come.lock().expect("nothing panics while it is held") = true;
        self.coming.notify_all();
    }

    /// Waits so long, or until the end; says whether it has come.
    pub fn wait(&self, time: Duration) -> bool {
        let has_come = self.has_come.lock().expect("nothing panics while it is held");
        let waited = self.coming.wait_timeout_while(has_come, time, |has_come| !*has_come);
        *waited.expect("nothing panics while it is held").0
    }

    /// Whether it has come.
    pub fn has_come(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// The end comes with that of the scope.
    pub fn when_dropped(&self) -> EndsWhenDropped<'_> {
        EndsWhenDropped { end: self, only_by_panic: false }
    }

    /// The end comes when the scope is left by a panic.
    pub fn when_panicking(&self) -> EndsWhenDropped<'_> {
        EndsWhenDropped { end: self, only_by_panic: true }
    }
}

impl Drop for EndsWhenDropped<'_> {
    fn drop(&mut self) {
        if !self.only_by_panic || std::thread::panicking() {
            self.end.set();
        }
    }
}
