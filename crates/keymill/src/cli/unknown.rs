//! Advice for a keyspace that does not exist: the name that was probably meant, and how to list all.
//!
//! Every command that names a keyspace runs inside [`advised`]. Nothing here changes whether a command fails.

use keymill_engine::operations::{Service, ServiceError};

use super::WrongUsage;
use crate::config::closest;

/// Runs a command, and adds advice to its error if that is an unknown keyspace.
pub(super) async fn advised<T>(
    service: &Service,
    done: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let error = match done.await {
        Err(error) => error,
        done => return done,
    };
    let Some(ServiceError::UnknownSpace(name)) = error.downcast_ref() else { return Err(error) };
    let advice = match similar(service, name).await {
        Some(similar) => format!("did you mean `{similar}`? "),
        None => String::new(),
    };
    Err(anyhow::anyhow!("{error:#}; {advice}`keymill space list` lists all keyspaces"))
}

/// The error of a command with two arguments. If only the second one is a keyspace, they were swapped.
pub(super) async fn or_swapped(
    error: anyhow::Error,
    service: &Service,
    [command, space, other]: [&str; 3],
) -> anyhow::Error {
    let names = names(service).await;
    let is_space = |name: &str| names.iter().any(|known| known == name);
    if is_space(space) || !is_space(other) {
        return error;
    }
    let space = space.escape_debug();
    let problem = format!(
        "there is no keyspace `{space}`, but there is `{other}`: the keyspace comes first, as in `keymill \
         {command} {other} {space}`"
    );
    WrongUsage(problem).into()
}

/// The existing keyspace that was probably meant.
pub(super) async fn similar(service: &Service, name: &str) -> Option<String> {
    let names = names(service).await;
    closest(name, names.iter().map(String::as_str)).map(str::to_owned)
}

/// All keyspaces; none if the store cannot be read, because the original error matters more.
async fn names(service: &Service) -> Vec<String> {
    service.space_names().await.unwrap_or_default()
}
