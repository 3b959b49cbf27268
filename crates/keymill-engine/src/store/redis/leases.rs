//! Leases in Redis: granted one by one, given back many in one round trip, and listed.

use std::time::Instant;

use async_trait::async_trait;
use deadpool::managed::Object;

use super::rows::{self, FieldMap, lease_from, mark_from};
use super::server::Server;
use super::{RedisStore, check_status, expect_lease, floor_in, guard, over};
use crate::store::values::json;
use crate::store::{
    Floor, GiveBack, Grant, LeaseAsk, LeasePage, LeaseRecord, Leases, Mark, StoreError,
};

/// The most leases that are closed in one round trip, which has a time limit.
const CLOSED_MAX: usize = 500;

#[async_trait]
impl Leases for RedisStore {
    async fn lease(&self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError> {
        over!(self, |connection| self.lease_over(&connection, ask, floor))
    }

    /// Closes leases of any spaces, each by a script of its own. Where a space is refused over an old
    /// connection, all are asked for again over a new one: what is closed already is left alone.
    async fn give_back(
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

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        let connection = self.connection().await?;
        let mut script = self.scripts.lease_of.key(self.paths.space(space));
        script.arg(ordinal.to_string());
        let answer: Vec<String> = connection.run(&script).await?;
        lease_from(space, &rows::fields(&answer)).transpose()
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        let connection = self.connection().await?;
        let names = match &page.space {
            Some(space) => vec![space.clone()],
            None => self.space_names(&connection).await?,
        };
        let after = page.after.clone().unwrap_or_default();
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let mut leases = Vec::new();
        for name in names.iter().filter(|name| **name >= after.0) {
            let after = (*name == after.0).then(|| format!("{:020}", after.1));
            let rest = limit - leases.len();
            let (some, _) = self.leases_after(&connection, name, after.as_deref(), rest).await?;
            leases.extend(some);
            if leases.len() >= limit {
                break;
            }
        }
        Ok(leases)
    }
}

impl RedisStore {
    async fn lease_over(
        &self,
        connection: &Object<Server>,
        ask: &LeaseAsk,
        floor: &Floor,
    ) -> Result<Grant, StoreError> {
        let history = connection.history();
        let mut script = self.scripts.lease.key(self.paths.space(&ask.space));
        guard(&mut script, floor, history);
        // Beyond this a number is not exact in a script, and no lease is that large.
        let size = ask.size.min(1 << 52);
        script.arg(&ask.instance.id).arg(json(&ask.instance)).arg(size).arg(ask.share.max(1));
        expect_lease(&mut script, ask.last_lease);
        for spent in &ask.spent {
            script.arg(spent.to_string());
        }
        let (status, answer) = self.change(connection, &ask.space, floor, &script).await?;
        check_status(&status, &ask.space)?;
        let number = |index: usize| rows::number(answer.get(index));
        match status.as_str() {
            "lost" => Err(ask.lost_lease(ask.last_lease.unwrap_or_default(), floor)),
            "exhausted" => {
                let (space, held_elsewhere) = (ask.space.clone(), number(0)?);
                Err(StoreError::Exhausted { space, held_elsewhere })
            }
            _ => Ok(Grant {
                lease: number(0)?,
                ordinals: number(1)?..number(2)?,
                mark: Mark { revision: number(0)?, next: number(3)?, history, ..Mark::default() },
                left: number(4)?,
            }),
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
            pipe.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(self.paths.space(&back.space));
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

    /// Leases of a space by their numbers, after a given one, which has twenty digits; and the last number
    /// that was looked at. There may be fewer leases than numbers.
    pub(super) async fn leases_after(
        &self,
        connection: &Object<Server>,
        space: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<LeaseRecord>, Option<String>), StoreError> {
        let from = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
        let mut list = redis::cmd("ZRANGEBYLEX");
        list.arg(self.paths.of_space(space, "leases")).arg(from).arg("+");
        list.arg("LIMIT").arg(0).arg(limit);
        let mut numbers: Vec<String> = connection.ask(&list).await?;
        let mut pipe = redis::pipe();
        for number in &numbers {
            let number: u64 = rows::number(Some(number))?;
            pipe.cmd("HGETALL").arg(self.paths.of_space(space, &format!("lease:{number}")));
        }
        let found: Vec<FieldMap> = connection.ask_all(&pipe).await?;
        let mut leases = Vec::with_capacity(found.len());
        for fields in &found {
            leases.extend(lease_from(space, fields).transpose()?);
        }
        Ok((leases, numbers.pop()))
    }
}
