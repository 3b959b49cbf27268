//! The keys of inputs.

use keymill_client::raw::Method;
use keymill_engine::operations::Service;
use tokio::task::JoinSet;

use super::refusal::code_of;
use super::{Server, Site};
use crate::front::http::views::{DigestAsk, DigestView, DigestsView};

/// How many bytes of inputs are sent at once, unless one alone is longer. Servers take bodies of 64 KB by default.
const BYTES_MAX: usize = 48 << 10;

/// The key of an input, or why it has none.
pub(in crate::cli) type Digested = anyhow::Result<DigestedKey>;

/// The key of an input.
#[derive(Debug)]
pub(in crate::cli) struct DigestedKey {
    pub(in crate::cli) key: String,
    /// Whether the input is new.
    pub(in crate::cli) made: bool,
}

impl Site {
    /// The keys of inputs, in their order. Behind the first that has none, there may be fewer answers than inputs.
    pub(in crate::cli) async fn digest(
        &self,
        space: &str,
        scope: &str,
        inputs: &[String],
    ) -> Vec<Digested> {
        match self {
            Site::Store(service) => on_store(service, space, scope, inputs).await,
            Site::Server(server) => {
                let mut answers = Vec::with_capacity(inputs.len());
                for some in batches(inputs) {
                    server.digest(space, scope, some, &mut answers).await;
                    if answers.last().is_some_and(Result::is_err) {
                        break;
                    }
                }
                answers
            }
        }
    }
}

/// Each on its own; together, they share commits.
async fn on_store(service: &Service, space: &str, scope: &str, inputs: &[String]) -> Vec<Digested> {
    let mut tasks = JoinSet::new();
    for (index, input) in inputs.iter().enumerate() {
        let (service, space) = (service.clone(), space.to_owned());
        let (scope, input) = (scope.to_owned(), input.clone());
        tasks.spawn(async move { (index, service.digest(&space, &scope, &input).await) });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_unstable_by_key(|(index, _)| *index);
    let digested = |(_, answer): (usize, Result<keymill_engine::operations::DigestAnswer, _>)| {
        let answer = answer.map_err(anyhow::Error::from)?;
        Ok(DigestedKey { key: answer.key, made: answer.made })
    };
    answers.into_iter().map(digested).collect()
}

impl Server {
    /// Adds the keys of inputs to answers. If they are refused together, halves of them are tried, so that those before
    /// the one that is wrong have their keys; the error of that one comes last.
    async fn digest(
        &self,
        space: &str,
        scope: &str,
        inputs: &[String],
        answers: &mut Vec<Digested>,
    ) {
        let mut waiting = vec![inputs];
        while let Some(some) = waiting.pop() {
            match self.digest_at_once(space, scope, some).await {
                Ok(keys) => answers.extend(keys.into_iter().map(Ok)),
                Err(error) if some.len() > 1 && is_about_some(&error) => {
                    let (first, second) = some.split_at(some.len() / 2);
                    waiting.extend([second, first]);
                }
                Err(error) => {
                    answers.push(Err(error));
                    return;
                }
            }
        }
    }

    async fn digest_at_once(
        &self,
        space: &str,
        scope: &str,
        inputs: &[String],
    ) -> anyhow::Result<Vec<DigestedKey>> {
        let mut ask = DigestAsk { scope: scope.to_owned(), ..DigestAsk::default() };
        let digests = self.ask_in(space, Method::POST, "/digests").repeatable();
        // One alone, so that a refusal does not call it the first of a list.
        if let [input] = inputs {
            ask.input = Some(input.clone());
            let DigestView { key, made, .. } = digests.json(&ask).read().await?;
            return Ok(vec![DigestedKey { key, made }]);
        }
        ask.inputs = Some(inputs.to_vec());
        let DigestsView { keys, made, .. } = digests.json(&ask).read().await?;
        Ok(keys.into_iter().zip(made).map(|(key, made)| DigestedKey { key, made }).collect())
    }
}

/// Whether fewer inputs may be accepted.
fn is_about_some(error: &anyhow::Error) -> bool {
    matches!(code_of(error), Some("bad_input" | "bad_count" | "body_too_large" | "above_burst"))
}

/// The inputs, as many at once as fit a body.
fn batches(inputs: &[String]) -> Vec<&[String]> {
    let (mut batches, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (at, input) in inputs.iter().enumerate() {
        // With what JSON puts around it.
        let len = input.len() + 3;
        if at > begin && bytes + len > BYTES_MAX {
            batches.push(&inputs[begin..at]);
            (begin, bytes) = (at, 0);
        }
        bytes += len;
    }
    if begin < inputs.len() {
        batches.push(&inputs[begin..]);
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_sent_in_batches_that_fit_and_in_their_order() {
        let inputs: Vec<String> = (0..100).map(|number| format!("{number:01000}")).collect();
        let batches = batches(&inputs);
        let lens: Vec<usize> = batches.iter().map(|batch| batch.len()).collect();
        assert_eq!(lens, [49, 49, 2]);
        assert_eq!(batches.concat(), inputs);
        let long = ["x".repeat(2 * BYTES_MAX), "y".to_owned()];
        assert_eq!(super::batches(&long).len(), 2);
        assert!(super::batches(&[]).is_empty());
    }
}
