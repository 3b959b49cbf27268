//! From what Redis and its scripts answer to the store's records.

use std::collections::HashMap;
use std::ops::Range;

use crate::instance::Instance;
use crate::space::{Definition, Tuning};
use crate::store::values::{from_json, time};
use crate::store::{
    Claimed, History, InstanceRecord, LeaseRecord, Lengths, Mark, NamePurpose, NameRecord, Purpose,
    Ranges, SpaceRecord, StoreError, UsedKey,
};

/// The fields of a hash, by name.
pub(super) type FieldMap = HashMap<String, String>;

/// A script's status and the rest of its answer.
pub(super) fn reply(mut answer: Vec<String>) -> Result<(String, Vec<String>), StoreError> {
    if answer.is_empty() {
        return Err(StoreError::Broken("a script answered nothing".to_owned()));
    }
    let status = answer.remove(0);
    Ok((status, answer))
}

/// Names and values, as scripts return them.
pub(super) fn fields(answer: &[String]) -> FieldMap {
    answer.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

pub(super) fn field(fields: &FieldMap, name: &str) -> Result<String, StoreError> {
    let missing = || StoreError::Broken(format!("redis holds a record without `{name}`"));
    fields.get(name).cloned().ok_or_else(missing)
}

pub(super) fn number<T: std::str::FromStr>(text: Option<&String>) -> Result<T, StoreError> {
    let found = text.and_then(|text| text.parse().ok());
    found.ok_or_else(|| StoreError::Broken(format!("redis holds {text:?}, not a number")))
}

/// How far a space has come, as scripts begin their answers.
pub(super) fn mark_from(answer: &[String], history: History) -> Result<Mark, StoreError> {
    let number = |index: usize| number(answer.get(index));
    Ok(Mark { revision: number(0)?, next: number(1)?, history, ..Mark::default() })
}

/// `None` where there is no such space.
pub(super) fn space_from(
    name: &str,
    fields: &FieldMap,
    history: History,
) -> Option<Result<SpaceRecord, StoreError>> {
    let read = || {
        let whole = |name: &str| number(fields.get(name));
        let definition: Definition = from_json(&field(fields, "definition")?)?;
        let mut tuning: Tuning = from_json(&field(fields, "tuning")?)?;
        // It has a field of its own, so that a change of settings neither ends an import nor begins one.
        tuning.importing = fields.get("importing").cloned();
        Ok(SpaceRecord {
            name: name.to_owned(),
            tuning,
            fingerprint: fields.get("fingerprint").cloned(),
            capacity: whole("capacity")?,
            mark: Mark {
                revision: whole("revision")?,
                next: whole("next")?,
                history,
                grown: Lengths::of(&definition.grown),
            },
            base: fields.get("base").map_or(Ok(0), |text| number(Some(text)))?,
            returned: ranges_from(&field(fields, "returned")?)?,
            sealed: field(fields, "sealed")? == "1",
            created_at: time(number(fields.get("created_at"))?),
            definition,
        })
    };
    (!fields.is_empty()).then(read)
}

/// `None` where there is no such lease.
pub(super) fn lease_from(
    space: &str,
    fields: &FieldMap,
) -> Option<Result<LeaseRecord, StoreError>> {
    let read = || {
        let whole = |name: &str| number(fields.get(name));
        let maybe = |name: &str| fields.get(name).map(|text| number(Some(text))).transpose();
        let closed_at = fields.get("closed_at").map(|text| number(Some(text))).transpose()?;
        Ok(LeaseRecord {
            space: space.to_owned(),
            lease: whole("lease")?,
            ordinals: whole("start")?..whole("end")?,
            closed_at_ordinal: maybe("closed_at_ordinal")?,
            purpose: Purpose::from_name(&field(fields, "purpose")?),
            holder: from_json(&field(fields, "holder")?)?,
            granted_at: time(number(fields.get("granted_at"))?),
            closed_at: closed_at.map(time),
        })
    };
    (!fields.is_empty()).then(read)
}

pub(super) fn name_from(space: &str, key: &str, json: &str) -> Result<NameRecord, StoreError> {
    let fields: FieldMap = from_json(json)?;
    let maybe = |name: &str| fields.get(name).map(|text| number(Some(text))).transpose();
    let removed_at = fields.get("removed_at").map(|text| number(Some(text))).transpose()?;
    Ok(NameRecord {
        space: space.to_owned(),
        key: key.to_owned(),
        ordinal: maybe("ordinal")?,
        purpose: NamePurpose::from_name(&field(&fields, "purpose")?),
        owner: field(&fields, "owner")?,
        created_at: time(number(fields.get("created_at"))?),
        removed_at: removed_at.map(time),
    })
}

pub(super) fn used_from(key: &str, json: &str) -> Result<UsedKey, StoreError> {
    let fields: FieldMap = from_json(json)?;
    let at = |name: &str| number(fields.get(name)).map(time);
    let maybe = |name: &str| fields.get(name).map(|_| at(name)).transpose();
    Ok(UsedKey {
        id: number(fields.get("place"))?,
        key: key.to_owned(),
        used_at: at("used_at")?,
        caller: field(&fields, "caller")?,
        instance: field(&fields, "instance")?,
        expires_at: maybe("expires_at")?,
        retired_at: maybe("retired_at")?,
    })
}

pub(super) fn instance_from(fields: &FieldMap) -> Result<InstanceRecord, StoreError> {
    let at = |name: &str| number(fields.get(name)).map(time);
    Ok(InstanceRecord {
        instance: Instance {
            id: field(fields, "id")?,
            host: field(fields, "host")?,
            pid: number(fields.get("pid"))?,
            version: field(fields, "version")?,
            started_at: at("started_at")?,
        },
        address: fields.get("address").cloned(),
        seen_at: at("seen_at")?,
        stopped_at: fields.get("stopped_at").map(|_| at("stopped_at")).transpose()?,
    })
}

pub(super) fn claimed_from(place: &str, key: &str) -> Result<Claimed, StoreError> {
    Ok(Claimed { id: whole_from(place)?, key: key.to_owned() })
}

/// A score, which the server may write as `1e+12`.
pub(super) fn whole_from(score: &str) -> Result<i64, StoreError> {
    let whole = score.parse::<f64>().ok().and_then(|score| format!("{score:.0}").parse().ok());
    whole.ok_or_else(|| StoreError::Broken(format!("redis holds {score:?}, not a whole number")))
}

/// From `start-end,start-end`.
fn ranges_from(text: &str) -> Result<Ranges, StoreError> {
    let mut ranges = Ranges::default();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let bounds: Option<Range<u64>> = range
            .split_once('-')
            .and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
        ranges.add(bounds.ok_or_else(|| {
            StoreError::Broken(format!("redis holds {text:?}, not ranges of ordinals"))
        })?);
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::values::json;

    #[test]
    fn a_space_is_importing_what_its_own_field_says_whatever_its_settings_do() {
        let fields = |importing: Option<&str>, set: Option<&str>| {
            let tuning = Tuning { importing: set.map(str::to_owned), ..Tuning::default() };
            let mut fields = FieldMap::new();
            for (name, value) in [
                ("definition", json(&Definition::default())),
                ("tuning", json(&tuning)),
                ("returned", String::new()),
                ("sealed", "1".to_owned()),
            ] {
                fields.insert(name.to_owned(), value);
            }
            for name in ["capacity", "revision", "next", "created_at"] {
                fields.insert(name.to_owned(), "7".to_owned());
            }
            fields.extend(importing.map(|from| ("importing".to_owned(), from.to_owned())));
            fields
        };
        for (importing, set) in
            [(None, Some("a/b")), (Some("a/b"), None), (Some("a/b"), Some("c/d"))]
        {
            let space = space_from("links", &fields(importing, set), History::default());
            let found = space.unwrap().unwrap().tuning.importing;
            assert_eq!(found.as_deref(), importing, "{set:?}");
        }
    }

    #[test]
    fn scores_are_read_however_they_are_written() {
        for (score, expected) in [
            ("0", 0),
            ("1e+12", 1_000_000_000_000),
            ("1763251200123", 1_763_251_200_123),
            ("9007199254740991", 9_007_199_254_740_991),
        ] {
            assert_eq!(whole_from(score).unwrap(), expected, "{score}");
        }
        assert!(whole_from("soon").is_err());
    }
}
