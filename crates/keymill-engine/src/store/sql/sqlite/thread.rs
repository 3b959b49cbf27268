//! A thread that owns a connection to a SQLite file: SQLite blocks, and nothing else here may.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use super::connection::Db;
use crate::store::StoreError;

/// How long a caller waits for its turn and its answer.
const CALL_MAX: Duration = Duration::from_secs(8);
const QUEUE_MAX: usize = 256;

/// A thread that owns a connection and does one job after the other. Dropping it waits for the
/// job under way and closes the connection, so that a clean stop leaves one whole file.
#[derive(Debug)]
pub(super) struct DbThread {
    jobs: Option<mpsc::SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for DbThread {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Job = Box<dyn FnOnce(&mut Db) + Send>;

impl DbThread {
    pub(super) fn start(name: &str, mut db: Db) -> DbThread {
        let (jobs, queue) = mpsc::sync_channel::<Job>(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                for job in queue {
                    // A job that panics fails alone: its caller sees that no answer comes.
                    if catch_unwind(AssertUnwindSafe(|| job(&mut db))).is_err() {
                        db.leave();
                    }
                }
            })
            .expect("the system can start a thread");
        DbThread { jobs: Some(jobs), thread: Some(thread) }
    }

    /// Has the thread do a job. One that is not answered in time may still be done later:
    /// whether it was is in doubt.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Db) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move |db: &mut Db| {
            // Whoever asked may have stopped waiting; then nobody needs the answer.
            if !answer.is_closed() {
                let _ = answer.send(job(db));
            }
        });
        let jobs = self.jobs.as_ref().expect("taken only when dropped");
        jobs.try_send(job).map_err(|error| {
            StoreError::Unavailable(match error {
                TrySendError::Full(_) => {
                    "too many requests are waiting for the database".to_owned()
                }
                TrySendError::Disconnected(_) => "the database thread ended".to_owned(),
            })
        })?;
        match tokio::time::timeout(CALL_MAX, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(StoreError::InDoubt(
                "the request failed unexpectedly; the log says why".to_owned(),
            )),
            Err(_) => Err(StoreError::InDoubt(format!("no answer within {CALL_MAX:?}"))),
        }
    }
}
