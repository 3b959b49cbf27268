//! From rows of SQLite to the store's records.

use std::collections::HashMap;
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::statements::{IMPORTED, MARKS, NAME, NAMES_KEPT, NAMES_LISTED, NAMES_OF, SKIPS, SPACE};
use crate::instance::Instance;
use crate::space::Definition;
use crate::store::values::{signed, time, unsigned};
use crate::store::{
    LeaseRecord, Lengths, Mark, NamePage, NamePurpose, NameRecord, NewName, Purpose, SpaceRecord,
    WorkerRecord,
};

pub(super) fn identity(connection: &Connection) -> rusqlite::Result<String> {
    connection.prepare_cached("SELECT identity FROM store")?.query_row([], |row| row.get(0))
}

pub(super) fn space_named(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Option<SpaceRecord>> {
    connection
        .prepare_cached(&format!("{SPACE} WHERE name = ?1"))?
        .query_row([name], space_from)
        .optional()
}

pub(super) fn all_spaces(connection: &Connection) -> rusqlite::Result<Vec<SpaceRecord>> {
    connection
        .prepare_cached(&format!("{SPACE} ORDER BY name"))?
        .query_map([], space_from)?
        .collect()
}

/// How far all spaces have come, by name as bytes: that is how SQLite compares text.
pub(super) fn all_marks(connection: &Connection) -> rusqlite::Result<Vec<(String, Mark)>> {
    let mark_from = |row: &Row<'_>| {
        let (next, revision) = (unsigned(row.get(1)?), unsigned(row.get(2)?));
        Ok((row.get(0)?, Mark { next, revision, ..Mark::default() }))
    };
    connection.prepare_cached(MARKS)?.query_map([], mark_from)?.collect()
}

pub(super) fn space_from(row: &Row<'_>) -> rusqlite::Result<SpaceRecord> {
    let definition: Definition = parse(row, 1)?;
    Ok(SpaceRecord {
        name: row.get(0)?,
        tuning: parse(row, 2)?,
        fingerprint: row.get(3)?,
        capacity: unsigned(row.get(4)?),
        mark: Mark {
            next: unsigned(row.get(5)?),
            revision: unsigned(row.get(6)?),
            grown: Lengths::of(&definition.grown),
            ..Mark::default()
        },
        sealed: row.get(7)?,
        created_at: time(row.get(8)?),
        returned: parse(row, 9)?,
        base: unsigned(row.get(10)?),
        definition,
    })
}

pub(super) fn lease_from(row: &Row<'_>) -> rusqlite::Result<LeaseRecord> {
    Ok(LeaseRecord {
        space: row.get(0)?,
        lease: unsigned(row.get(1)?),
        ordinals: unsigned(row.get(2)?)..unsigned(row.get(3)?),
        closed_at_ordinal: row.get::<_, Option<i64>>(4)?.map(unsigned),
        purpose: Purpose::from_name(row.get_ref(5)?.as_str()?),
        granted_at: time(row.get(6)?),
        closed_at: row.get::<_, Option<i64>>(7)?.map(time),
        holder: instance_from(row, 8)?,
    })
}

pub(super) fn worker_from(row: &Row<'_>) -> rusqlite::Result<WorkerRecord> {
    Ok(WorkerRecord {
        worker: row.get(0)?,
        lease: unsigned(row.get(1)?),
        end: unsigned(row.get(2)?),
    })
}

pub(super) fn name_of(
    connection: &Connection,
    space: &str,
    name: &NewName,
) -> rusqlite::Result<Option<NameRecord>> {
    let mut by_key = connection.prepare_cached(NAME)?;
    let known = by_key.query_row([space, &name.key], name_from).optional()?;
    let Some(ordinal) = name.ordinal.filter(|_| known.is_none()) else { return Ok(known) };
    let mut imported = connection.prepare_cached(IMPORTED)?;
    let at = imported.query_row(params![space, signed(ordinal)], |row| row.get(0)).optional()?;
    Ok(at.map(|at| name.imported(space, time(at))))
}

pub(super) fn names_of(
    connection: &Connection,
    page: &NamePage,
) -> rusqlite::Result<Vec<NameRecord>> {
    let sql = match (page.purpose, page.removed) {
        (NamePurpose::Pool | NamePurpose::Digest, _) => NAMES_OF,
        (_, true) => NAMES_LISTED,
        (_, false) => NAMES_KEPT,
    };
    let after = page.after.as_deref().unwrap_or_default();
    let params = params![page.space, page.purpose.name(), after, page.limit];
    connection.prepare_cached(sql)?.query_map(params, name_from)?.collect()
}

/// How many names there are that were not removed, by space, of one or of all. The keys in use that
/// are mere ordinals count too.
pub(super) fn name_counts(
    connection: &Connection,
    space: Option<&str>,
) -> rusqlite::Result<HashMap<String, u64>> {
    let of = if space.is_some() { "space = ?1" } else { "?1 IS NULL" };
    let names = format!("names WHERE removed_at IS NULL AND {of}");
    let mut counts: HashMap<String, u64> = HashMap::new();
    for counted in [names, format!("imported WHERE {of}")] {
        let sql = format!("SELECT space, count(*) FROM {counted} GROUP BY space");
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([space])?;
        while let Some(row) = rows.next()? {
            *counts.entry(row.get(0)?).or_default() += unsigned(row.get(1)?);
        }
    }
    Ok(counts)
}

pub(super) fn name_from(row: &Row<'_>) -> rusqlite::Result<NameRecord> {
    Ok(NameRecord {
        space: row.get(0)?,
        key: row.get(1)?,
        ordinal: row.get::<_, Option<i64>>(2)?.map(unsigned),
        purpose: NamePurpose::from_name(row.get_ref(3)?.as_str()?),
        owner: row.get(4)?,
        created_at: time(row.get(5)?),
        removed_at: row.get::<_, Option<i64>>(6)?.map(time),
    })
}

/// The ordinals of a range that names occupy.
pub(super) fn skips_in(
    connection: &Connection,
    space: &str,
    ordinals: &Range<u64>,
) -> rusqlite::Result<Vec<u64>> {
    if ordinals.is_empty() {
        return Ok(Vec::new());
    }
    let range = params![space, signed(ordinals.start), signed(ordinals.end)];
    let mut skips = connection.prepare_cached(SKIPS)?;
    skips.query_map(range, |row| row.get(0).map(unsigned))?.collect()
}

pub(super) fn instance_from(row: &Row<'_>, first: usize) -> rusqlite::Result<Instance> {
    Ok(Instance {
        id: row.get(first)?,
        host: row.get(first + 1)?,
        pid: row.get(first + 2)?,
        version: row.get(first + 3)?,
        started_at: time(row.get(first + 4)?),
    })
}

pub(super) fn parse<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|error| {
        let kind = rusqlite::types::Type::Text;
        rusqlite::Error::FromSqlConversionFailure(column, kind, Box::new(error))
    })
}
