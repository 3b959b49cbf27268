//! Digests: the same input has the same key, from any instance at any time.

use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use keymill_core::Located;
use zeroize::Zeroizing;

use super::source::Source;
use super::turn::turn;
use super::{Service, ServiceError, Space};
use crate::fence::Fence;
use crate::fence::group_commit::GroupCommit;
use crate::space::digest::{Digester, Prepared};
use crate::space::{Definition, DefinitionError};
use crate::store::{DigestBatch, DigestInput, DigestKey, SpaceRecord, StoreError};

/// How many keys are tried for an input, before the space counts as full.
const TRIES_MAX: u8 = 128;
/// How many of them the store is offered at once. Rarely is more than one needed.
const TRIES_AT_ONCE: usize = 8;
/// How often keys are chosen anew, where the space grows again and again.
const OUTDATED_MAX: usize = 3;
/// The most inputs of one commit.
const INPUTS_MAX: usize = 1_000;
/// After how many inputs others get a turn: some tenths of a millisecond.
const INPUTS_TURN: usize = 32;

/// The key of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestAnswer {
    /// Its text.
    pub key: String,
    /// Whether the input is new.
    pub made: bool,
    /// How many keys were tried for it, where it is new.
    pub tries: u8,
}

/// What makes the digests of one space.
pub(super) struct DigestMaker {
    key: Zeroizing<[u8; 32]>,
    /// Of the last generation that this instance has met: new inputs get keys of its length.
    last: ArcSwap<LastDigester>,
    /// Commits new inputs, many requests to a commit. The task that commits them starts with the first request.
    group: LazyLock<Group, Box<dyn FnOnce() -> Group + Send>>,
}

type Group = GroupCommit<Vec<Asked>, Vec<Option<DigestKey>>>;

/// How inputs become keys of a generation, and how many generations there were.
#[derive(Debug)]
struct LastDigester {
    digester: Digester,
    generations: usize,
}

/// An input to commit, with the number of generations that its candidates were chosen by.
type Asked = (DigestInput, usize);

impl Service {
    /// The key of an input, within a scope.
    pub async fn digest(
        &self,
        name: &str,
        scope: &str,
        input: &str,
    ) -> Result<DigestAnswer, ServiceError> {
        let space = self.space(name).await?;
        let began = Instant::now();
        let answers = self.digest_some(&space, scope, &[input]).await;
        space.usage.note_end(began, answers.as_ref().ok().map(Vec::len));
        Ok(answers?.pop().expect("an answer for each input"))
    }

    /// The keys of inputs, in their order, up to a thousand to a commit. Where one cannot be digested
    /// none is; where the store fails on the way, the first ones may have their keys already, and get
    /// the same ones when they are asked for again.
    pub async fn digest_all(
        &self,
        name: &str,
        scope: &str,
        inputs: &[String],
    ) -> Result<Vec<DigestAnswer>, ServiceError> {
        let too_many = |_| ServiceError::BadCount { max: self.inner.limits.count_max };
        self.check_count(u32::try_from(inputs.len()).map_err(too_many)?)?;
        let space = self.space(name).await?;
        let began = Instant::now();
        let answers = self.digest_in_commits(&space, scope, inputs).await;
        space.usage.note_end(began, answers.as_ref().ok().map(Vec::len));
        answers
    }

    async fn digest_in_commits(
        &self,
        space: &Space,
        scope: &str,
        inputs: &[String],
    ) -> Result<Vec<DigestAnswer>, ServiceError> {
        let last = space.digests()?.last_of(space)?;
        for (index, input) in inputs.iter().enumerate() {
            if let Err(problem) = last.digester.prepare(scope, input) {
                return Err(ServiceError::BadInputs { index, problem });
            }
            turn_at(index).await;
        }
        let mut answers = Vec::with_capacity(inputs.len());
        for some in inputs.chunks(INPUTS_MAX) {
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            answers.extend(self.digest_some(space, scope, &some).await?);
        }
        Ok(answers)
    }

    /// The keys of inputs that fit one commit. Where the space has grown meanwhile, keys are chosen
    /// again: what is new gets the length of the last generation.
    async fn digest_some(
        &self,
        space: &Space,
        scope: &str,
        inputs: &[&str],
    ) -> Result<Vec<DigestAnswer>, ServiceError> {
        let digests = space.digests()?;
        for _ in 0..OUTDATED_MAX {
            let last = digests.last_of(space)?;
            // Names that are older than their generation may be spelt otherwise than a candidate is.
            let (capacity, reached) = (space.codec.capacity(), space.record().mark);
            self.inner.fence.reach(&space.codec, capacity, reached).await?;
            match digests.find(space, &last, scope, inputs).await? {
                Some(found) => return Ok(found),
                None => {
                    let record = self.store().spaces.space(&space.name).await?;
                    space.codec.follow(&record.definition)?;
                }
            }
        }
        Err(StoreError::Outdated(space.name.clone()).into())
    }

    /// What makes digests, for a space of that kind.
    pub(super) fn digests_of(&self, record: &SpaceRecord) -> Result<DigestMaker, ServiceError> {
        let inner = &self.inner;
        let key = self.master_for(&record.name)?.digest_key(&record.name);
        let (space, fence) = (record.name.clone(), inner.fence.clone());
        let commits = Arc::new(DigestCommit { space, fence });
        let commit = move |inputs| {
            let commits = commits.clone();
            async move { commits.write(inputs).await }
        };
        let runtime = inner.runtime.clone();
        let start = move || GroupCommit::start(&runtime, INPUTS_MAX, Vec::len, commit);
        let group = LazyLock::new(Box::new(start) as Box<_>);
        let last = ArcSwap::from_pointee(last_digester(&key, &record.definition)?);
        Ok(DigestMaker { key, last, group })
    }
}

fn last_digester(
    key: &Zeroizing<[u8; 32]>,
    definition: &Definition,
) -> Result<LastDigester, DefinitionError> {
    let shape = definition.shape_last()?;
    let digester = Digester::new(**key, shape, definition.normalize);
    Ok(LastDigester { digester, generations: definition.generation_count() })
}

impl DigestMaker {
    /// How inputs become keys of the last generation.
    fn last_of(&self, space: &Space) -> Result<Arc<LastDigester>, DefinitionError> {
        let known = self.last.load_full();
        let grown = space.codec.grown();
        if known.generations == 1 + grown.len() {
            return Ok(known);
        }
        let definition = Definition { grown, ..space.record().definition.clone() };
        self.last.store(Arc::new(last_digester(&self.key, &definition)?));
        Ok(self.last.load_full())
    }

    /// The keys of inputs; `None` where the space has grown meanwhile.
    async fn find(
        &self,
        space: &Space,
        last: &LastDigester,
        scope: &str,
        inputs: &[&str],
    ) -> Result<Option<Vec<DigestAnswer>>, ServiceError> {
        let mut searches = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter().enumerate() {
            searches.push(Search::new(last.digester.prepare(scope, input)?));
            turn_at(index).await;
        }
        loop {
            let mut open: Vec<&mut Search<'_>> =
                searches.iter_mut().filter(|search| search.found.is_none()).collect();
            if open.is_empty() {
                break;
            }
            let mut asked = Vec::with_capacity(open.len());
            for (index, search) in open.iter_mut().enumerate() {
                if search.attempts.is_empty() {
                    let space = space.name.clone();
                    return Err(ServiceError::Exhausted { space, held_elsewhere: 0 });
                }
                asked.push((search.next(space), last.generations));
                turn_at(index).await;
            }
            let found = match self.group.ask(asked).await {
                Err(StoreError::Outdated(_)) => return Ok(None),
                found => found?,
            };
            for (search, found) in open.into_iter().zip(found) {
                search.found = found;
            }
        }
        Ok(Some(searches.into_iter().filter_map(Search::into_answer).collect()))
    }
}

/// The search for the key of one input.
struct Search<'a> {
    prepared: Prepared<'a>,
    /// Which candidates were not tried yet.
    attempts: Range<u8>,
    /// Which of them were offered last, counted from 1.
    tries: Vec<u8>,
    found: Option<DigestKey>,
}

impl<'a> Search<'a> {
    fn new(prepared: Prepared<'a>) -> Search<'a> {
        Search { prepared, attempts: 0..TRIES_MAX, tries: Vec::new(), found: None }
    }

    /// What to ask the store next.
    fn next(&mut self, space: &Space) -> DigestInput {
        let mut candidates = Vec::new();
        self.tries.clear();
        for attempt in self.attempts.by_ref() {
            let key = self.prepared.candidate(attempt);
            if !space.blocks(&key) && !space.has_early_name(&key) {
                candidates.push(key.as_str().to_owned());
                self.tries.push(attempt + 1);
            }
            if candidates.len() == TRIES_AT_ONCE {
                break;
            }
        }
        DigestInput { hash: *self.prepared.input_hash().as_bytes(), candidates }
    }

    fn into_answer(self) -> Option<DigestAnswer> {
        let DigestKey { key, made } = self.found?;
        let tries = made.map_or(0, |number| self.tries[number]);
        Some(DigestAnswer { key, made: made.is_some(), tries })
    }
}

impl std::fmt::Debug for DigestMaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DigestMaker({:?})", self.last.load())
    }
}

impl Space {
    /// What makes its digests, if that is its kind.
    fn digests(&self) -> Result<&DigestMaker, ServiceError> {
        let Source::Digests(digests) = &self.source else {
            let name = &self.name;
            let problem = format!("`{name}` makes no digests: its kind is not `digest`");
            return Err(ServiceError::WrongKind(problem));
        };
        Ok(digests)
    }

    /// Whether a name that is older than its generation occupies a key.
    fn has_early_name(&self, key: &[u8]) -> bool {
        match self.generations().ordinal(key) {
            Ok(Located::Ordinal(ordinal)) => self.codec.skips().contains(ordinal),
            _ => false,
        }
    }
}

/// What a commit needs.
struct DigestCommit {
    space: String,
    fence: Arc<Fence>,
}

impl DigestCommit {
    async fn write(
        &self,
        asked: Vec<Vec<Asked>>,
    ) -> Result<Vec<Vec<Option<DigestKey>>>, StoreError> {
        let sizes: Vec<usize> = asked.iter().map(Vec::len).collect();
        // Where some were chosen by fewer generations, all are chosen again.
        let all = asked.iter().flatten();
        let generations = all.map(|(_, generations)| *generations).min().unwrap_or(1);
        let inputs = asked.into_iter().flatten().map(|(input, _)| input).collect();
        let batch = DigestBatch { space: self.space.clone(), inputs, generations };
        let digested = self.fence.digest(&batch).await?;
        let mut keys = digested.keys.into_iter();
        Ok(sizes.into_iter().map(|size| keys.by_ref().take(size).collect()).collect())
    }
}

/// Waits for a turn after every so many inputs.
async fn turn_at(index: usize) {
    if index % INPUTS_TURN == INPUTS_TURN - 1 {
        turn().await;
    }
}
