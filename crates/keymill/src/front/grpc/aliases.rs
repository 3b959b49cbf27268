//! Aliases: keys that users choose.

use keymill_proto::v1;

use super::admission::Admitted;
use super::convert::{self, page};
use super::messages::Received;
use crate::front::http::page::next;
use crate::front::http::{Http, Problem};

/// Reserves a key of the caller's choice.
pub(super) async fn add(
    http: &Http,
    admitted: &Admitted,
    message: Received,
) -> Result<v1::AddAliasResponse, Problem> {
    let v1::AddAliasRequest { space, alias, owner } = admitted.only(http, message)?;
    let owner = admitted.caller.name(&owner, &space).into_owned();
    let made = http.state.service.add_alias(&space, &alias, &owner).await?;
    Ok(v1::AddAliasResponse { space, alias, owner, made })
}

/// Removes an alias.
pub(super) async fn remove(
    http: &Http,
    admitted: &Admitted,
    message: Received,
) -> Result<v1::RemoveAliasResponse, Problem> {
    let v1::RemoveAliasRequest { space, alias, owner } = admitted.only(http, message)?;
    let owner = admitted.caller.name(&owner, &space).into_owned();
    http.state.service.remove_alias(&space, &alias, &owner).await?;
    Ok(v1::RemoveAliasResponse {})
}

/// Shows an alias.
pub(super) async fn get(
    http: &Http,
    admitted: &Admitted,
    message: Received,
) -> Result<v1::Alias, Problem> {
    let v1::GetAliasRequest { space, alias } = admitted.only(http, message)?;
    Ok(convert::alias(http.state.service.alias(&space, &alias).await?))
}

/// Lists aliases, ordered by name.
pub(super) async fn list(
    http: &Http,
    admitted: &Admitted,
    message: Received,
) -> Result<v1::ListAliasesResponse, Problem> {
    let v1::ListAliasesRequest { space, after, limit } = admitted.only(http, message)?;
    let (after, limit) = page(after, limit)?;
    let aliases = http.state.service.aliases(&space, after, limit).await?;
    let next = next(&aliases, limit, |last| last.key.clone());
    let aliases = aliases.into_iter().map(convert::alias).collect();
    Ok(v1::ListAliasesResponse { aliases, next })
}
