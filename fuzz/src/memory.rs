//! How much memory an input may take: what a stranger sends must not make the server grow.
//!
//! The targets run every input through [`bounded`], and `world` compares what one instance left behind with what the
//! first one did.

use std::cell::Cell;

use peak_alloc::PeakAlloc;

/// Counts what is allocated, in all threads. SQLite's own memory is not among it.
#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// What instances may leave behind, over what the first one has: caches fill up, and buffers stay with their threads.
const LEFT_BEHIND_MAX: usize = 8 << 20;

thread_local! {
    static FIRST_LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs something that may have at most so many more bytes in use at once than there were before it.
pub fn bounded<T>(bytes_max: usize, run: impl FnOnce() -> T) -> T {
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    let value = run();
    let peak = ALLOCATED.peak_usage().saturating_sub(before);
    assert!(peak <= bytes_max, "an input took {peak} bytes at its peak, of {bytes_max}");
    value
}

/// To be called whenever an instance is gone. What is left must not grow from one to the next.
pub fn instance_is_gone() {
    let left = ALLOCATED.current_usage();
    match FIRST_LEFT.get() {
        None => FIRST_LEFT.set(Some(left)),
        Some(first) => {
            assert!(left <= first + LEFT_BEHIND_MAX, "{left} bytes are left, {first} at first");
        }
    }
}
