//! Many requests to one commit.
//!
//! What has to be on record before it is answered would cost a commit each. Here those that come while
//! a commit is under way wait for it, and share the next one: nobody waits for company, and a crowd
//! pays once.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::store::StoreError;

/// How often others may have a turn before a commit begins.
const TURNS: usize = 4;
/// How many requests may wait.
const QUEUE_MAX: usize = 1_024;
/// How long one waits for its turn and its answer.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// A queue of requests of one kind, and the task that commits them.
pub(crate) struct GroupCommit<Q, A> {
    queue: mpsc::Sender<Job<Q, A>>,
}

struct Job<Q, A> {
    asked: Q,
    answer: oneshot::Sender<Result<A, StoreError>>,
}

impl<Q: Send + 'static, A: Send + 'static> GroupCommit<Q, A> {
    /// Starts a task that commits requests, up to a sum of `size_max`, and answers each of them in
    /// their order.
    pub(crate) fn start<F>(
        runtime: &Handle,
        size_max: usize,
        size_of: fn(&Q) -> usize,
        commit: impl Fn(Vec<Q>) -> F + Send + 'static,
    ) -> GroupCommit<Q, A>
    where
        F: Future<Output = Result<Vec<A>, StoreError>> + Send + 'static,
    {
        let (queue, mut jobs) = mpsc::channel::<Job<Q, A>>(QUEUE_MAX);
        runtime.spawn(async move {
            while let Some(first) = jobs.recv().await {
                let mut size = size_of(&first.asked);
                let (mut asked, mut answers) = (vec![first.asked], vec![first.answer]);
                // Those whom the last commit has answered ask again all at once: they are let in.
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                    while size < size_max
                        && let Ok(job) = jobs.try_recv()
                    {
                        size += size_of(&job.asked);
                        asked.push(job.asked);
                        answers.push(job.answer);
                    }
                }
                // A task of its own: one that panics fails alone.
                let committed = tokio::spawn(commit(asked)).await.unwrap_or_else(|_| {
                    let problem = "the request failed unexpectedly; the log says why".to_owned();
                    Err(StoreError::InDoubt(problem))
                });
                match committed {
                    Ok(all) => {
                        assert_eq!(all.len(), answers.len(), "an answer for each");
                        for (answer, one) in answers.into_iter().zip(all) {
                            // Whoever asked may have gone; what is on record stays.
                            let _ = answer.send(Ok(one));
                        }
                    }
                    Err(error) => {
                        for answer in answers {
                            let _ = answer.send(Err(error.clone()));
                        }
                    }
                }
            }
        });
        GroupCommit { queue }
    }

    /// Has a request committed, together with whatever else waits. Refused where too many do.
    pub(crate) async fn ask(&self, asked: Q) -> Result<A, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.queue.try_send(Job { asked, answer }).map_err(|_| {
            StoreError::Unavailable("too many requests are waiting for the store".to_owned())
        })?;
        Self::answer(answered).await
    }

    /// The same for one who has nobody waiting, and lines up however many do.
    pub(crate) async fn ask_in_line(&self, asked: Q) -> Result<A, StoreError> {
        let (answer, answered) = oneshot::channel();
        let gone = |_| StoreError::Unavailable("this instance is stopping".to_owned());
        self.queue.send(Job { asked, answer }).await.map_err(gone)?;
        Self::answer(answered).await
    }

    async fn answer(answered: oneshot::Receiver<Result<A, StoreError>>) -> Result<A, StoreError> {
        let late = || StoreError::InDoubt(format!("no answer within {WAIT_MAX:?}"));
        let answered = tokio::time::timeout(WAIT_MAX, answered).await.map_err(|_| late())?;
        answered.unwrap_or_else(|_| Err(late()))
    }
}

impl<Q, A> fmt::Debug for GroupCommit<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupCommit({} waiting)", self.queue.max_capacity() - self.queue.capacity())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_waits_during_a_commit_shares_the_next_one() {
        let commits = Arc::new(AtomicUsize::new(0));
        let counted = commits.clone();
        let group = GroupCommit::start(
            &Handle::current(),
            100,
            |_| 1,
            move |asked: Vec<u32>| {
                let counted = counted.clone();
                async move {
                    counted.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    Ok(asked.into_iter().map(|number| number * 2).collect())
                }
            },
        );
        let group = Arc::new(group);
        let mut asking = tokio::task::JoinSet::new();
        for number in 0..50 {
            let group = group.clone();
            asking.spawn(async move { (number, group.ask(number).await.unwrap()) });
        }
        for (number, answer) in asking.join_all().await {
            assert_eq!(answer, number * 2);
        }
        assert!(commits.load(Ordering::Relaxed) < 5, "{commits:?}");
    }
}
