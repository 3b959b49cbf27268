//! Taking keys.

use keymill_client::raw::{Method, header};
use tokio::time::sleep;

use super::refusal::{Refusal, code_of};
use super::{Server, Site};

/// How many keys are asked for at once. A server that allows fewer is asked for fewer.
const COUNT_MAX: u64 = 100_000;
/// How long a server may have a command wait for its next keys.
const WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(60);

impl Site {
    /// Takes keys. Fewer than asked for only if the keyspace has no more, or `each`, which is given every one of them,
    /// returns that nobody reads them.
    pub(in crate::cli) async fn take(
        &self,
        space: &str,
        count: u64,
        caller: &str,
        each: impl FnMut(&[u8]) -> bool + Send,
    ) -> anyhow::Result<u64> {
        match self {
            Site::Store(service) => {
                let space = service.space(space).await?;
                Ok(service.take_exactly(&space, count, caller, each).await?)
            }
            Site::Server(server) => server.take(space, count, caller, each).await,
        }
    }
}

impl Server {
    async fn take(
        &self,
        space: &str,
        count: u64,
        caller: &str,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> anyhow::Result<u64> {
        let (mut taken, mut at_once) = (0, COUNT_MAX);
        while taken < count {
            let wanted = at_once.min(count - taken);
            let error = match self.take_some(space, wanted, caller, &mut each).await {
                Ok(None) => break,
                Ok(Some(some)) => {
                    taken += some;
                    continue;
                }
                Err(error) => error,
            };
            match code_of(&error) {
                // The settings of the server, or of the token, allow fewer at once.
                Some("bad_count" | "above_burst") if wanted > 1 => at_once = wanted / 2,
                Some("exhausted" | "sealed") if taken > 0 => break,
                Some("rate_limited") => wait(error).await?,
                Some("no_keys_ready") if taken > 0 => wait(error).await?,
                _ => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Takes keys with one request. Returns how many, at least one; `None` if nobody reads them any more. That there are
    /// no more keys is a refusal with a code of its own, so an answer without any is not one of keymill.
    async fn take_some(
        &self,
        space: &str,
        count: u64,
        caller: &str,
        each: &mut impl FnMut(&[u8]) -> bool,
    ) -> anyhow::Result<Option<u64>> {
        // Where an answer is lost, its keys stay unused.
        let ask = self.ask_in(space, Method::POST, "/keys").for_text().repeatable();
        let ask = ask.query("count", &count.to_string());
        let ask = ask.query_if("caller", Some(caller).filter(|caller| !caller.is_empty()));
        let mut answer = ask.send().await?;
        let label = answer.headers.get(header::CONTENT_TYPE);
        if !label.is_some_and(|label| label.as_bytes().starts_with(b"text/plain")) {
            return Err(not_keys("is not plain text"));
        }
        let (mut taken, mut begun) = (0, Vec::new());
        while let Some(chunk) =
            answer.chunk().await.map_err(|error| self.refused(error, Some(space)))?
        {
            for part in chunk.split_inclusive(|byte| *byte == b'\n') {
                begun.extend_from_slice(part);
                let Some(key) = begun.strip_suffix(b"\n") else { continue };
                if !each(key) {
                    // What was not sent yet, the server hands out later.
                    return Ok(None);
                }
                taken += 1;
                begun.clear();
            }
        }
        match taken {
            0 => Err(not_keys("has no key")),
            _ if !begun.is_empty() => Err(not_keys("ends within a key")),
            _ => Ok(Some(taken)),
        }
    }
}

/// The error for an answer that cannot be one.
fn not_keys(problem: &str) -> anyhow::Error {
    anyhow::anyhow!("the server's answer {problem}; is it keymill?")
}

/// Waits as long as the server asks for, if that is not too long.
async fn wait(error: anyhow::Error) -> anyhow::Result<()> {
    let asked = error.downcast_ref().and_then(Refusal::retry_after);
    match asked.filter(|wait| *wait <= WAIT_MAX) {
        Some(time) => {
            sleep(time).await;
            Ok(())
        }
        None => Err(error),
    }
}
