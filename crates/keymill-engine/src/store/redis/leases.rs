//! Leases in Redis: granted one by one, and given back many in one round trip.

use std::time::Instant;

use deadpool::managed::Object;

use super::connection::Server;
use super::rows::{self, mark_from};
use super::{RedisStore, expect_lease, floor_in, guard};
use crate::store::values::json;
use crate::store::{Floor, GiveBack, Grant, LeaseAsk, Mark, StoreError};

/// The most leases that are closed in one round trip, which has a time limit.
const CLOSED_MAX: usize = 500;

impl RedisStore {
    pub(super) async fn lease_over(
        &self,
        connection: &Object<Server>,
        ask: &LeaseAsk,
        floor: &Floor,
    ) -> Result<Grant, StoreError> {
        let history = connection.history();
        let mut script = self.scripts.lease.key(self.keys.space(&ask.space));
        guard(&mut script, floor, history);
        // Beyond this a number is not exact in a script, and no lease is that large.
        let size = ask.size.min(1 << 52);
        script.arg(&ask.instance.id).arg(json(&ask.instance)).arg(size).arg(ask.share.max(1));
        expect_lease(&mut script, ask.last_lease);
        for spent in &ask.spent {
            script.arg(spent.to_string());
        }
        let (status, answer) = self.change(connection, &ask.space, floor, &script).await?;
        let number = |index: usize| rows::number(answer.get(index));
        let space = ask.space.clone();
        match status.as_str() {
            "lost" => Err(ask.lost_lease(ask.last_lease.unwrap_or_default(), floor)),
            "sealed" => Err(StoreError::Sealed(space)),
            "exhausted" => Err(StoreError::Exhausted { space, held_elsewhere: number(0)? }),
            _ => Ok(Grant {
                lease: number(0)?,
                ordinals: number(1)?..number(2)?,
                mark: Mark { revision: number(0)?, next: number(3)?, history, ..Mark::default() },
                left: number(4)?,
            }),
        }
    }

    /// Closes leases of any spaces, each by a script of its own. Where a space is refused over an old
    /// connection, all are asked for again over a new one: what is closed already is left alone.
    pub(super) async fn close_leases(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        let begun = Instant::now();
        loop {
            let connection = self.connection().await?;
            let made_at = connection.made_at();
            let mut answers = Vec::with_capacity(backs.len());
            for some in backs.chunks(CLOSED_MAX) {
                match self.close_some(&connection, some).await {
                    Ok(some) => answers.extend(some),
                    // The rest would fare no better, and nobody has to wait for that.
                    Err(error) => {
                        answers.resize(backs.len(), Err(error));
                        break;
                    }
                }
            }
            let counts = !answers.iter().any(|answer| self.is_doubtful(answer, made_at));
            if counts || !self.connects_anew(made_at, begun) {
                return Ok(answers);
            }
        }
    }

    async fn close_some(
        &self,
        connection: &Object<Server>,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        let history = connection.history();
        let script = &self.scripts.give_back;
        let mut pipe = redis::pipe();
        for (back, floor) in backs {
            pipe.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(self.keys.space(&back.space));
            pipe.arg(&floor_in(floor, history)).arg(&back.instance);
            pipe.arg(back.lease.to_string()).arg(back.end.to_string());
            pipe.arg(back.closed_at.to_string());
            for range in &back.returned {
                pipe.arg(range.start.to_string()).arg(range.end.to_string());
            }
        }
        let answers = connection.change_all(script, &mut pipe).await?;
        let mut marks = Vec::with_capacity(backs.len());
        for ((back, floor), answer) in backs.iter().zip(answers) {
            marks.push(match answer {
                Ok(answer) => self.mark_of(connection, &back.space, floor, answer).await,
                Err(error) => Err(error),
            });
        }
        Ok(marks)
    }

    /// How far a space has come, once it was asked to close a lease.
    async fn mark_of(
        &self,
        connection: &Object<Server>,
        space: &str,
        floor: &Floor,
        answer: Vec<String>,
    ) -> Result<Mark, StoreError> {
        let (_, answer) = self.judge(connection, space, floor, answer).await?;
        mark_from(&answer, connection.history())
    }
}
