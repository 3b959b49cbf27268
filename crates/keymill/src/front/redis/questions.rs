//! `SCARD`, `SISMEMBER`, `EXISTS` and `TYPE`: what is known of a keyspace, in the words of a set.
//!
//! All of them may ask the store, so each is a job. docs/redis.md has the table of what a key's state means to
//! `SISMEMBER`.

use std::sync::Arc;

use jiff::Timestamp;
use keymill_engine::operations::{Service, ServiceError, Space, State};
use keymill_engine::space::Kind;

use super::failure::Failure;
use super::take::is_integer;

/// What is answered where keys do not run out within the life of anything: the largest number that Redis has.
const ENDLESS: u64 = i64::MAX.unsigned_abs();

/// How many keys of a keyspace are left: those that no instance holds, and those in the memory of this one.
pub(super) async fn count(service: &Service, space: &str) -> Result<u64, Failure> {
    let report = service.report(space).await?;
    let record = &report.record;
    let left = match record.definition.kind {
        Kind::Digest => {
            let problem = format!("`{space}` makes keys from inputs: there are none to be counted");
            return Err(ServiceError::WrongKind(problem).into());
        }
        _ if record.sealed => 0,
        Kind::Snowflake | Kind::Uuid => ENDLESS,
        Kind::Pooled => report.available.unwrap_or(0).saturating_add(report.at_hand),
        Kind::Shuffled | Kind::Sequential => report.remaining.saturating_add(report.at_hand),
    };
    Ok(left.min(ENDLESS))
}

/// Whether it is certain that a key was not handed out, and may still be.
pub(super) async fn may_come(service: &Service, space: &str, key: &str) -> Result<bool, Failure> {
    let explanation = service.explain(space, key).await?;
    let opened = service.space(space).await?;
    let may_come = match explanation.state {
        // What is not in the pool would have to be put there first.
        State::Unissued if opened.record().definition.kind == Kind::Pooled => false,
        // An ID of a time that is over cannot be made any more.
        State::Unissued => explanation.time.is_none_or(|time| time > Timestamp::now()),
        State::Available | State::Reserved => true,
        // An instance that holds a key may have handed it out.
        State::Leased
        | State::Issued
        | State::Retired
        | State::Alias
        | State::Imported
        | State::Skipped
        | State::Unknown
        | State::Invalid => false,
    };
    Ok(may_come && !opened.record().sealed)
}

/// How many of these keyspaces exist; one that is named twice counts twice, as in Redis.
pub(super) async fn exist(service: &Service, spaces: &[Box<str>]) -> Result<u64, Failure> {
    let mut count = 0;
    for space in spaces {
        count += u64::from(find(service, space).await?.is_some());
    }
    Ok(count)
}

/// What Redis would call a keyspace.
pub(super) async fn kind(service: &Service, space: &str) -> Result<&'static str, Failure> {
    Ok(match find(service, space).await? {
        None => "none",
        Some(space) if is_integer(&space.record().definition) => "string",
        Some(_) => "set",
    })
}

async fn find(service: &Service, space: &str) -> Result<Option<Arc<Space>>, ServiceError> {
    match service.space(space).await {
        Ok(space) => Ok(Some(space)),
        Err(ServiceError::UnknownSpace(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
