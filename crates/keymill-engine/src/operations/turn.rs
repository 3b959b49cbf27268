//! Turns: large work of one thread, a piece at a time.
//!
//! Each thread of the server runs a runtime of its own, in which nothing interrupts a task. So whoever
//! makes or checks thousands of keys asks for a turn before every piece, of a fraction of a
//! millisecond. Of all the large work of a thread, one piece is done a turn, and before each the
//! runtime has looked at its sockets and answered what is small. Small work never asks.

use std::sync::Arc;

use tokio::sync::Semaphore;

thread_local! {
    /// First come, first served.
    static TURNS: Arc<Semaphore> = Arc::new(Semaphore::new(1));
}

/// Waits for a turn to do one piece of large work on this thread.
pub async fn turn() {
    let turns = TURNS.with(Arc::clone);
    // In a task of its own, which the runtime polls for certain: whoever waits here may not be polled
    // for long, and would hold up all others. And a task that yields is woken after the runtime has
    // looked at its sockets, but hyper polls a body several times in a row, which ends the yielding.
    let waiting = tokio::spawn(async move {
        let _turn = turns.acquire().await;
        tokio::task::yield_now().await;
    });
    // It neither panics nor is aborted, but by the end of the runtime.
    let _ = waiting.await;
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn turns_go_round_and_leave_room_for_others() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for name in ["a", "b"] {
            let done = done.clone();
            tasks.push(tokio::spawn(async move {
                for _ in 0..3 {
                    turn().await;
                    done.lock().unwrap().push(name);
                }
            }));
        }
        let small = tokio::spawn({
            let done = done.clone();
            async move { done.lock().unwrap().push("small") }
        });
        small.await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*done.lock().unwrap(), ["small", "a", "b", "a", "b", "a", "b"]);
    }

    #[tokio::test]
    async fn whoever_is_not_polled_holds_up_nobody() {
        let mut idle = Box::pin(turn());
        let polled = std::future::poll_fn(|context| Poll::Ready(idle.as_mut().poll(context)));
        assert!(polled.await.is_pending());
        turn().await;
        turn().await;
        idle.await;
    }
}
