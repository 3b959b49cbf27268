//! Keys as rows: pools, used keys, digests. For the stores that keep them.
//!
//! A case takes the place of a key from what the store told, and never makes up its id, except for
//! keys of a lease: what an id means is the store's affair.

mod digests;
mod moving;
mod notes;
mod pools;
mod used;

pub(super) use digests::*;
pub(super) use moving::*;
pub(super) use notes::*;
pub(super) use pools::*;
pub(super) use used::*;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{
    AvailablePage, Claim, ClaimAsk, Claimed, DigestBatch, DigestInput, DigestKey, Evidence, Fill,
    Filled, Floor, Found, KeyRef, KeyRows, KeyUse, Mark, NameBatch, NamePurpose, Naming, NewName,
    Opening, Purpose, Release, Retire, StoreError, UsedKey, UsedPage, Uses, WriteKeys,
};

use super::{Case, is_rolled_back, name_only, to};

const HOUR: Duration = Duration::from_secs(3_600);

impl Case {
    fn rows(&self) -> &KeyRows {
        self.store.rows.as_ref().unwrap()
    }

    /// Another instance, with a handle of its own on the same space.
    async fn another_instance(&self) -> Case {
        Case {
            url: self.url.clone(),
            store: keymill_engine::internals::store::open(&self.url, Opening::default())
                .await
                .unwrap(),
            unseen: self.unseen.clone(),
            instance: Instance::this_process(),
            space: self.space.clone(),
        }
    }

    async fn fill_ask(&self, size: u64) -> Fill {
        Fill {
            space: self.space.clone(),
            instance: self.instance.clone(),
            size,
            enough: None,
            write: writer(),
            capacity: u64::MAX,
            era: self.mark().await.revision / keymill_engine::internals::store::ERA,
        }
    }

    async fn fill(&self, size: u64) -> Filled {
        self.rows().pools.fill(&self.fill_ask(size).await, &self.unseen).await.unwrap()
    }

    fn claim_ask(&self, size: u64) -> ClaimAsk {
        ClaimAsk {
            space: self.space.clone(),
            instance: self.instance.clone(),
            size,
            share: 1,
            after: i64::MIN,
            reserve: false,
            reserve_max: HOUR,
            ttl: None,
            last: None,
        }
    }

    async fn claim(&self, size: u64) -> Claim {
        self.rows().pools.claim(&self.claim_ask(size), &self.unseen).await.unwrap()
    }

    async fn reserve(&self, size: u64) -> Vec<Claimed> {
        let ask = ClaimAsk { reserve: true, ..self.claim_ask(size) };
        self.rows().pools.claim(&ask, &self.unseen).await.unwrap().keys
    }

    async fn reserve_outlived(&self) -> Claimed {
        self.claim_outlived(true).await
    }

    /// Claims a key that is reserved, as soon as it has been for a millisecond.
    async fn claim_outlived(&self, reserve: bool) -> Claimed {
        let reserve_max = Duration::from_millis(1);
        let ask = ClaimAsk { reserve, reserve_max, ..self.claim_ask(1) };
        for _ in 0..1_000 {
            let mut keys = self.rows().pools.claim(&ask, &self.unseen).await.unwrap().keys;
            if let Some(claimed) = keys.pop() {
                return claimed;
            }
            tick().await;
        }
        panic!("no reservation has outlived its time");
    }

    /// Claims as an instance does, with a fill where the pool is empty, until the space is.
    async fn claim_to_the_end(&self, number: u64) -> Vec<Claimed> {
        let fill = Fill { enough: Some(1), ..self.fill_ask(40).await };
        let mut ask = self.claim_ask(1);
        let mut kept = Vec::new();
        for turn in 0_u64.. {
            (ask.size, ask.share) = (1 + (turn * 7 + number) % 20, 1 + turn % 3);
            let mut keys = match self.rows().pools.claim(&ask, &self.unseen).await {
                Ok(claim) => claim.keys,
                Err(StoreError::Unavailable(_)) => continue,
                Err(error) => panic!("{error}"),
            };
            let Some(last) = keys.last() else {
                match self.rows().pools.fill(&fill, &self.unseen).await {
                    Ok(_) | Err(StoreError::Unavailable(_)) => continue,
                    Err(StoreError::Exhausted { .. }) => break,
                    Err(error) => panic!("{error}"),
                }
            };
            ask.after = last.id + 1;
            // Of every third claim, the second half comes back.
            if turn % 3 == 0 {
                let rest = keys.split_off(keys.len() / 2);
                let back = self.release_ask(&rest);
                while let Err(error) = self.rows().pools.release(&back, &self.unseen).await {
                    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
                }
            }
            kept.extend(keys);
        }
        kept
    }

    /// Reserves keys for so short a time that others take them, and returns what it may hand out.
    async fn use_to_the_end(&self) -> Vec<Claimed> {
        let reserve_max = Duration::from_millis(3);
        let ask = ClaimAsk { reserve: true, reserve_max, ..self.claim_ask(5) };
        let mut used = Vec::new();
        for turn in 0_u64.. {
            let keys = match self.rows().pools.claim(&ask, &self.unseen).await {
                Ok(claim) => claim.keys,
                Err(StoreError::Unavailable(_)) => continue,
                Err(error) => panic!("{error}"),
            };
            if keys.is_empty() {
                break;
            }
            if turn % 2 == 0 {
                tokio::time::sleep(reserve_max * 2).await;
            }
            let uses = self.uses(&keys, "ann");
            let noted = loop {
                match self.rows().use_log.note(&uses, &self.unseen).await {
                    Ok(noted) => break noted,
                    Err(StoreError::Unavailable(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            };
            assert_eq!(noted.may_go.len(), keys.len());
            let gone = keys.into_iter().zip(noted.may_go).filter(|(_, may_go)| *may_go);
            used.extend(gone.map(|(claimed, _)| claimed));
        }
        used
    }

    fn release_ask(&self, keys: &[Claimed]) -> Release {
        Release {
            space: self.space.clone(),
            instance: self.instance.id.clone(),
            keys: keys.to_vec(),
            reserved: false,
        }
    }

    async fn release(&self, keys: &[Claimed]) {
        self.rows().pools.release(&self.release_ask(keys), &self.unseen).await.unwrap();
    }

    async fn release_reserved(&self, keys: &[Claimed]) {
        let back = Release { reserved: true, ..self.release_ask(keys) };
        self.rows().pools.release(&back, &self.unseen).await.unwrap();
    }

    fn uses(&self, keys: &[Claimed], caller: &str) -> Uses {
        let key_use = |claimed: &Claimed| KeyUse {
            id: claimed.id,
            key: claimed.key.clone(),
            caller: caller.to_owned(),
        };
        Uses {
            space: self.space.clone(),
            instance: self.instance.id.clone(),
            keys: keys.iter().map(key_use).collect(),
            pooled: true,
            ttl: None,
            last: None,
        }
    }

    async fn note(&self, keys: &[Claimed], caller: &str) -> Vec<bool> {
        self.rows().use_log.note(&self.uses(keys, caller), &self.unseen).await.unwrap().may_go
    }

    fn retire_ask(&self, claimed: &Claimed) -> Retire {
        Retire {
            at: self.place_of(claimed),
            used_at: Timestamp::from_millisecond(1_000_000_000_000).unwrap(),
            instance: self.instance.id.clone(),
        }
    }

    async fn retire(&self, claimed: &Claimed) -> UsedKey {
        self.retire_as(&self.retire_ask(claimed)).await
    }

    async fn retire_as(&self, ask: &Retire) -> UsedKey {
        let (mark, retired) = self.rows().use_log.retire(ask, &self.unseen).await.unwrap();
        let now = self.mark().await;
        assert_eq!((mark.revision, mark.next), (now.revision, now.next), "how far it has come");
        retired
    }

    async fn available(&self) -> u64 {
        self.rows().pools.available(&self.space).await.unwrap()
    }

    fn place_of(&self, claimed: &Claimed) -> KeyRef {
        KeyRef { space: self.space.clone(), id: claimed.id, key: claimed.key.clone() }
    }

    async fn found(&self, claimed: &Claimed) -> Option<Found> {
        self.rows().pools.find(&self.place_of(claimed)).await.unwrap()
    }

    async fn used(&self, claimed: &Claimed) -> UsedKey {
        match self.found(claimed).await {
            Some(Found::Used(used)) => used,
            found => panic!("{claimed:?} is not used: {found:?}"),
        }
    }

    /// Whether a key is on record as used by an instance, in a space that has come this far.
    async fn confirms_use(&self, reached: Mark, claimed: &Claimed, instance: &str) -> bool {
        let (at, instance) = (self.place_of(claimed), instance.to_owned());
        let evidence = Evidence::Used { at, instance };
        self.confirm(reached, evidence, 0..0).await.unwrap().on_record
    }

    async fn is_reserved_by(&self, claimed: &Claimed, instance: &Instance) -> bool {
        let found = self.found(claimed).await;
        matches!(found, Some(Found::Reserved { by, .. }) if by == instance.id)
    }

    /// All available keys, page by page.
    async fn pool(&self) -> Vec<Claimed> {
        let mut page = AvailablePage { space: self.space.clone(), after: None, limit: 7 };
        let mut listed = Vec::new();
        loop {
            let keys = self.rows().pools.available_page(&page).await.unwrap();
            let Some(last) = keys.last() else { return listed };
            page.after = Some(last.clone());
            assert!(keys.len() <= 7);
            listed.extend(keys);
            assert!(listed.len() <= 10_000, "the pages have no end");
        }
    }

    fn used_ask(&self) -> UsedPage {
        let space = self.space.clone();
        UsedPage { space, from: None, to: None, caller: None, after: None, limit: 1_000 }
    }

    /// All used keys of a page and of those after it.
    async fn used_keys(&self, mut page: UsedPage) -> Vec<UsedKey> {
        let mut listed = Vec::new();
        loop {
            let keys = self.rows().use_log.used_page(&page).await.unwrap();
            let Some(last) = keys.last() else { return listed };
            page.after = Some((last.used_at, last.id));
            assert!(keys.len() <= page.limit as usize);
            listed.extend(keys);
            assert!(listed.len() <= 10_000, "the pages have no end");
        }
    }

    async fn take_names(&self, purpose: NamePurpose, names: &[(&str, Option<u64>)]) -> Vec<Naming> {
        let new = |(key, ordinal): &(&str, Option<u64>)| NewName {
            key: (*key).to_owned(),
            ordinal: *ordinal,
        };
        let batch = NameBatch {
            space: self.space.clone(),
            purpose,
            owner: String::new(),
            names: names.iter().map(new).collect(),
            generations: 1,
        };
        self.store.names.add_names(&batch, &self.unseen).await.unwrap().outcomes
    }

    fn digest_ask(&self, inputs: &[DigestInput]) -> DigestBatch {
        DigestBatch { space: self.space.clone(), inputs: inputs.to_vec(), generations: 1 }
    }

    async fn digest(&self, inputs: &[DigestInput]) -> Vec<Option<DigestKey>> {
        self.rows().digests.digest(&self.digest_ask(inputs), &self.unseen).await.unwrap().keys
    }

    /// Digests inputs of which two each want the same key first.
    async fn digest_pairs(&self, numbers: &[u8]) -> BTreeMap<u8, String> {
        let mut found = BTreeMap::new();
        for numbers in numbers.chunks(4) {
            let mut inputs = Vec::new();
            for &number in numbers {
                let (first, second) = (format!("first{}", number / 2), format!("second{number}"));
                inputs.push(input(number, &[first.as_str(), second.as_str()]));
            }
            let batch = self.digest_ask(&inputs);
            let digested = loop {
                match self.rows().digests.digest(&batch, &self.unseen).await {
                    Ok(digested) => break digested,
                    Err(StoreError::Unavailable(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            };
            assert_eq!(digested.keys.len(), numbers.len());
            for (&number, key) in numbers.iter().zip(digested.keys) {
                found.insert(number, key.unwrap().key);
            }
        }
        found
    }
}

/// The key of an ordinal is its number after a letter.
fn writer() -> WriteKeys {
    Arc::new(|ordinals, each| {
        for ordinal in ordinals {
            each(ordinal, &format!("k{ordinal}"));
        }
    })
}

/// What [`writer`] makes of ordinals.
fn keys_of(ordinals: impl IntoIterator<Item = u64>) -> BTreeSet<String> {
    ordinals.into_iter().map(|ordinal| format!("k{ordinal}")).collect()
}

#[track_caller]
fn keys_in(claimed: &[Claimed]) -> BTreeSet<String> {
    distinct(claimed.iter().map(|claimed| claimed.key.clone()))
}

#[track_caller]
fn keys_used(used: &[UsedKey]) -> BTreeSet<String> {
    distinct(used.iter().map(|used| used.key.clone()))
}

/// The same keys as a set; none of them may be there twice.
#[track_caller]
fn distinct(keys: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let mut distinct = BTreeSet::new();
    for key in keys {
        assert!(!distinct.contains(&key), "{key} is there twice");
        distinct.insert(key);
    }
    distinct
}

fn input(number: u8, candidates: &[&str]) -> DigestInput {
    let candidates = candidates.iter().map(|&candidate| candidate.to_owned()).collect();
    DigestInput { hash: [number; 32], candidates }
}

/// The key of an input that was made just now, of which candidate.
fn new_key(key: &str, candidate: usize) -> Option<DigestKey> {
    Some(DigestKey { key: key.to_owned(), made: Some(candidate) })
}

/// The key of an input that had it before.
fn old_key(key: &str) -> Option<DigestKey> {
    Some(DigestKey { key: key.to_owned(), made: None })
}

fn an_hour_after(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond() + 3_600_000).unwrap()
}

/// Lets the clock of the store move on, which counts milliseconds.
async fn tick() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}
