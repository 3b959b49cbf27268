//! Keyspaces: creates and shows them.

use keymill_proto::v1;

use super::Asked;
use super::admission::Admitted;
use super::convert::{self, page, spec};
use super::messages::Received;
use crate::front::http::page::next;
use crate::front::http::tokens::Act;
use crate::front::http::{Http, Problem};

/// Creates a keyspace, or sets what is changeable of one that exists. Where callers are told apart, it is put on record.
pub(super) async fn ensure(
    http: &Http,
    asked: &Asked,
    admitted: &Admitted,
    message: Received,
) -> Result<v1::EnsureSpaceResponse, Problem> {
    let ask: v1::EnsureSpaceRequest = admitted.only(http, message)?;
    let from = || asked.client.map(|client| client.to_string()).unwrap_or_default();
    let what = || format!("EnsureSpace {}", ask.space.escape_default());
    let act = admitted.caller.token_name().map(|by| Act::new(by, from(), what()));
    // In a task of its own: what was begun is done and put on record, also if the client goes away.
    let http = http.clone();
    let acting = tokio::spawn(async move {
        let ensured = ensure_now(&http, ask).await;
        let is_refused = ensured.as_ref().is_err_and(Problem::is_refusal);
        if let Some(act) = act.filter(|_| !is_refused) {
            act.record(&http.state, None).await;
        }
        ensured
    });
    match acting.await {
        Ok(ensured) => ensured,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

async fn ensure_now(
    http: &Http,
    ask: v1::EnsureSpaceRequest,
) -> Result<v1::EnsureSpaceResponse, Problem> {
    let (service, name) = (&http.state.service, &ask.space);
    let wanted = spec(ask.settings.unwrap_or_default())?;
    let ensured = service.ensure_space(name, &wanted).await?;
    let space = convert::space(service.report(name).await?);
    Ok(v1::EnsureSpaceResponse { space: Some(space), made: ensured.made })
}

/// Shows a keyspace's settings and usage.
pub(super) async fn get(
    http: &Http,
    admitted: &Admitted,
    message: Received,
) -> Result<v1::Space, Problem> {
    let v1::GetSpaceRequest { space } = admitted.only(http, message)?;
    Ok(convert::space(http.state.service.report(&space).await?))
}

/// Lists keyspaces, ordered by name.
pub(super) async fn list(
    http: &Http,
    admitted: &Admitted,
    message: Received,
) -> Result<v1::ListSpacesResponse, Problem> {
    let v1::ListSpacesRequest { after, limit } = admitted.only(http, message)?;
    let (after, limit) = page(after, limit)?;
    let reports = http.state.service.reports_after(after.as_deref(), limit).await?;
    let next = next(&reports, limit, |report| report.record.name.clone());
    let spaces = reports.into_iter().map(convert::space).collect();
    Ok(v1::ListSpacesResponse { spaces, next })
}
