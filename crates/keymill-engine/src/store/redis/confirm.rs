//! Looking once more at a space in Redis: one script reads its mark, and what decides which keys leave.
//!
//! The script answers on a master only, and on the course of history that this connection has met: so
//! the mark that is compared has the server's own history, not the one of a while ago. It cannot know whether
//! the server is still the master for everybody else; but a change that replicas have confirmed is on the
//! server that takes its place.

use async_trait::async_trait;
use deadpool::managed::Object;
use redis::Script;

use super::key_paths::digest_field;
use super::rows::{self, name_from, used_from};
use super::server::Server;
use super::{RedisStore, over};
use crate::store::{
    Confirm, Confirmed, Evidence, Mark, NewName, Snapshots, SpaceRecord, StoreError,
};

/// How often to look while the server moves from one history to the next.
const TRIES: u32 = 5;

/// A script's status, the fields of the space, and what it was asked for.
type Looked = (String, Vec<String>, Vec<String>, Vec<String>);

#[async_trait]
impl Snapshots for RedisStore {
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        over!(self, |connection| self.confirm_over(&connection, what))
    }

    async fn names_without_ordinal(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        over!(self, |connection| self.names_over(&connection, space, reached, after, limit))
    }
}

impl RedisStore {
    async fn confirm_over(
        &self,
        connection: &Object<Server>,
        what: &Confirm,
    ) -> Result<Confirmed, StoreError> {
        let ordinals = &what.skips_in;
        let bounds = if ordinals.is_empty() {
            [String::new(), String::new()]
        } else {
            [format!("[{:020}", ordinals.start), format!("({:020}", ordinals.end)]
        };
        let (hashes, fields) = self.hashes_of(what);
        let arguments = [bounds.as_slice(), fields.as_slice()].concat();
        let script = &self.scripts.confirm;
        let (space, found, skips) =
            self.look_above(connection, script, what, &hashes, &arguments).await?;
        let skips: Result<Vec<u64>, _> = skips.iter().map(|it| rows::number(Some(it))).collect();
        Ok(Confirmed { space, on_record: is_on_record(what, &found)?, skips: skips? })
    }

    async fn names_over(
        &self,
        connection: &Object<Server>,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let what =
            Confirm { space: space.to_owned(), reached, evidence: Evidence::Mark, skips_in: 0..0 };
        let from = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
        let arguments = [from, limit.to_string()];
        let script = &self.scripts.names_without_ordinal;
        let (_, _, names) = self.look_above(connection, script, &what, &[], &arguments).await?;
        Ok(names)
    }

    /// The hashes that the evidence is in, and its fields there. A key in use that came from another
    /// store may be known by its ordinal alone.
    fn hashes_of(&self, what: &Confirm) -> (Vec<String>, Vec<String>) {
        let of_space = |part: &str| self.paths.of_space(&what.space, part);
        let (part, fields) = match &what.evidence {
            Evidence::Mark => return (Vec::new(), Vec::new()),
            Evidence::Name { name: NewName { key, ordinal: Some(ordinal) }, .. } => {
                let hashes = vec![of_space("names"), of_space("in_use")];
                return (hashes, vec![key.clone(), ordinal.to_string()]);
            }
            Evidence::Lease { lease, .. } => {
                (format!("lease:{lease}"), vec!["instance".to_owned(), "end".to_owned()])
            }
            Evidence::Name { name, .. } => ("names".to_owned(), vec![name.key.clone()]),
            Evidence::Used { at, .. } => ("used".to_owned(), vec![at.key.clone()]),
            Evidence::Digest { hash, .. } => ("digests".to_owned(), vec![digest_field(hash)]),
        };
        (vec![of_space(&part)], fields)
    }

    /// Runs a script that begins with `reached.lua`, and refuses a space below what was reached.
    async fn look_above(
        &self,
        connection: &Object<Server>,
        script: &Script,
        what: &Confirm,
        hashes: &[String],
        arguments: &[String],
    ) -> Result<(SpaceRecord, Vec<String>, Vec<String>), StoreError> {
        for _ in 0..TRIES {
            let mut script = script.key(self.paths.space(&what.space));
            for hash in hashes {
                script.key(hash);
            }
            script.arg(connection.replication_id());
            script.arg(what.reached.revision.to_string()).arg(what.reached.next.to_string());
            script.arg(arguments);
            let (status, fields, found, listed): Looked = connection.run(&script).await?;
            match status.as_str() {
                "moved" => _ = connection.witness().await?,
                "unknown" => return Err(StoreError::gone(&what.space)),
                _ => {
                    let space = self.record_from(connection, &what.space, &fields)?;
                    what.check(&space)?;
                    return Ok((space, found, listed));
                }
            }
        }
        let server_name = connection.server_name();
        Err(StoreError::Unavailable(format!("{server_name} kept changing its replication ID")))
    }
}

/// Whether what was found is what the change has left.
fn is_on_record(what: &Confirm, found: &[String]) -> Result<bool, StoreError> {
    let text = found.first().filter(|text| !text.is_empty());
    Ok(match (&what.evidence, text) {
        (Evidence::Mark, _) => true,
        (Evidence::Name { .. }, None) => found.get(1).is_some_and(|it| !it.is_empty()),
        (_, None) => false,
        (Evidence::Lease { holder, end, .. }, Some(instance)) => {
            instance == holder && rows::number::<u64>(found.get(1))? >= *end
        }
        (Evidence::Name { name, .. }, Some(text)) => {
            let name = name_from(&what.space, &name.key, text)?;
            what.evidence.is_name(Some(&name))
        }
        (Evidence::Used { at, instance }, Some(text)) => {
            used_from(&at.key, text)?.instance == *instance
        }
        (Evidence::Digest { key, .. }, Some(found)) => found == key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::KeyRef;

    #[test]
    fn only_what_the_change_has_left_is_on_record() {
        let lease = Evidence::Lease { lease: 7, holder: "i-1".to_owned(), end: 20 };
        let new = NewName { key: "sale".to_owned(), ordinal: None };
        let name = Evidence::Name { name: new, owner: "me".to_owned() };
        let at = KeyRef { space: "links".to_owned(), id: 3, key: "k".to_owned() };
        let used = Evidence::Used { at, instance: "i-1".to_owned() };
        let digest = Evidence::Digest { hash: [0; 32], key: "k".to_owned() };
        let record = |owner: &str, removed: &str| {
            format!(r#"{{"purpose":"alias","owner":"{owner}","created_at":"1"{removed}}}"#)
        };
        let use_of = |instance: &str| {
            format!(r#"{{"place":"3","used_at":"1","caller":"","instance":"{instance}"}}"#)
        };
        let text = str::to_owned;
        for (evidence, found, expected) in [
            (&Evidence::Mark, vec![], true),
            (&lease, vec![text("i-1"), text("20")], true),
            (&lease, vec![text("i-1"), text("9223372036854775807")], true),
            (&lease, vec![text("i-1"), text("19")], false),
            (&lease, vec![text("i-2"), text("20")], false),
            (&lease, vec![text(""), text("")], false),
            (&name, vec![record("me", "")], true),
            (&name, vec![record("", "")], true),
            (&name, vec![record("you", "")], false),
            (&name, vec![record("me", r#","removed_at":"2""#)], false),
            (&name, vec![text("")], false),
            (&used, vec![use_of("i-1")], true),
            (&used, vec![use_of("i-2")], false),
            (&used, vec![text("")], false),
            (&digest, vec![text("k")], true),
            (&digest, vec![text("l")], false),
            (&digest, vec![text("")], false),
        ] {
            let (space, reached) = ("links".to_owned(), Mark::default());
            let evidence = evidence.clone();
            let what = Confirm { space, reached, evidence, skips_in: 0..0 };
            assert_eq!(is_on_record(&what, &found).unwrap(), expected, "{what:?} {found:?}");
        }
    }
}
