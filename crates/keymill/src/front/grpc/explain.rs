//! What is known of a key, and its end.

use keymill_proto::v1;

use super::admission::Admitted;
use super::convert::{explanation, used_key};
use super::messages::Received;
use crate::front::http::{Http, Problem};

/// Explains where a key came from.
pub(super) async fn explain(
    http: &Http,
    admitted: &Admitted,
    message: Received,
) -> Result<v1::Explanation, Problem> {
    let v1::ExplainRequest { space, key } = admitted.only(http, message)?;
    let found = http.state.service.explain(&space, &key).await?;
    Ok(explanation(space, key, found))
}

/// Retires a key that was handed out.
pub(super) async fn retire(
    http: &Http,
    admitted: &Admitted,
    message: Received,
) -> Result<v1::UsedKey, Problem> {
    let v1::RetireRequest { space, key } = admitted.only(http, message)?;
    Ok(used_key(http.state.service.retire(&space, &key).await?))
}
