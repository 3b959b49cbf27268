//! Advice for a keyspace that does not exist: the name that was probably meant, and how to list all.
//!
//! Every command that names a keyspace runs inside [`advised`]. Nothing here changes whether a command fails.

use super::WrongUsage;
use super::site::Site;
use super::site::refusal::unknown_space;
use crate::config::closest;

/// Runs a command, and adds advice to its error if that is an unknown keyspace.
pub(super) async fn advised<T>(
    site: &Site,
    done: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let error = match done.await {
        Err(error) => error,
        done => return done,
    };
    let Some(name) = unknown_space(&error) else { return Err(error) };
    let advice = match similar(site, name).await {
        Some(similar) => format!("did you mean `{similar}`? "),
        None => String::new(),
    };
    Err(anyhow::anyhow!("{error:#}; {advice}`keymill space list` lists all keyspaces"))
}

/// The error of a command with two arguments. If only the second one is a keyspace, they were swapped.
pub(super) async fn or_swapped(
    error: anyhow::Error,
    site: &Site,
    [command, space, other]: [&str; 3],
) -> anyhow::Error {
    let names = site.space_names().await;
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
pub(super) async fn similar(site: &Site, name: &str) -> Option<String> {
    let names = site.space_names().await;
    closest(name, names.iter().map(String::as_str)).map(str::to_owned)
}
