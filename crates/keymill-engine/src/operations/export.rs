//! Moving a keyspace to another store: `space export` writes it into a file, `space import` reads it.
//!
//! The keyspace is sealed before the first row is read, so that nothing is granted in the old store any
//! more. The file is for one store, so that it cannot be imported into two. In the new store the
//! keyspace stays sealed until the last line is there; an import that is interrupted begins again and
//! finds its rows.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::input::{check_space, shown};
use super::{Service, ServiceError};
use crate::space::RolledBack;
use crate::store::{Created, MovedRow, MovedSpace, Part, RowsPage, SpaceRecord, StoreError};

/// The version of the file's format.
const FORMAT: u32 = 1;
/// How many hexadecimal digits the identity of a store has.
const IDENTITY_LEN: usize = 16;
/// How many rows are read at once.
const PAGE: u32 = 1_000;
/// How many rows are written at once.
const ROWS_MAX: usize = 1_000;

/// The first line of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Header {
    keymill_export: u32,
    /// The store that the keyspace comes from.
    from_store: String,
    /// The one store that it is for.
    for_store: String,
    space: MovedSpace,
}

/// A line of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Export(Box<Header>),
    Row(MovedRow),
    /// The last one: how many rows there are, and the SHA-256 of all lines before it. Without it the
    /// file was cut off.
    End {
        rows: u64,
        sha256: String,
    },
}

/// A file that is being written, some lines at a time.
#[derive(Debug)]
pub struct ExportFile {
    service: Service,
    space: String,
    /// The first line, until it is written.
    header: Option<Box<Header>>,
    /// The parts that have not begun.
    parts: std::slice::Iter<'static, Part>,
    /// The page to read next.
    page: Option<RowsPage>,
    hash: Sha256,
    rows: u64,
    ended: bool,
}

/// A look at a whole file before anything of it is written: rows of a damaged one would stay.
#[derive(Debug, Default)]
pub struct ExportCheck {
    hash: Sha256,
    lines: u64,
    rows: u64,
    ended: bool,
}

/// A file that is being imported, line by line.
#[derive(Debug)]
pub struct MovedFile<'a> {
    service: &'a Service,
    header: Option<Box<Header>>,
    importing: String,
    waiting: Vec<MovedRow>,
    rows: u64,
    lines: u64,
    opened: Option<SpaceRecord>,
}

impl Service {
    /// The identity of the store, by which an export names the one that it is for.
    pub async fn store_identity(&self) -> Result<String, ServiceError> {
        Ok(self.store().admin.identity().await?)
    }

    /// Begins to write a sealed keyspace as lines for one other store. A keyspace that was exported for
    /// another store before is refused, unless `replace_target` says that no such file was ever imported.
    pub async fn export_file(
        &self,
        name: &str,
        for_store: &str,
        replace_target: bool,
    ) -> Result<ExportFile, ServiceError> {
        check_space(name)?;
        let store = self.store();
        let record = store.spaces.space(name).await?;
        if !record.sealed {
            return Err(ServiceError::BadImport(format!(
                "`{name}` is not sealed: an instance could hand out keys that are missing from the \
                 file"
            )));
        }
        if record.tuning.importing.is_some() {
            return Err(ServiceError::BadImport(format!(
                "`{name}` is still being imported itself; finish that first"
            )));
        }
        if !is_identity(for_store) {
            return Err(ServiceError::BadImport(format!(
                "`{}` is not the identity of a store; `keymill store identity` on the new store prints it",
                shown(for_store)
            )));
        }
        let from_store = store.admin.identity().await?;
        if from_store == for_store {
            return Err(ServiceError::BadImport(format!(
                "`{name}` is already in the store {for_store}; pass the identity of the new store"
            )));
        }
        let record = self.remember_target(record, for_store, replace_target).await?;
        let mut space = MovedSpace::from(record);
        space.tuning.exported_for = None;
        let for_store = for_store.to_owned();
        let header = Header { keymill_export: FORMAT, from_store, for_store, space };
        Ok(ExportFile {
            service: self.clone(),
            space: name.to_owned(),
            header: Some(Box::new(header)),
            parts: Part::ALL.iter(),
            page: None,
            hash: Sha256::new(),
            rows: 0,
            ended: false,
        })
    }

    /// Puts on record which store a keyspace is exported for: in two of them it would hand out the
    /// same keys.
    async fn remember_target(
        &self,
        record: SpaceRecord,
        for_store: &str,
        replace: bool,
    ) -> Result<SpaceRecord, ServiceError> {
        let name = &record.name;
        match record.tuning.exported_for.as_deref() {
            Some(known) if known == for_store => return Ok(record),
            Some(known) if !replace => {
                return Err(ServiceError::BadImport(format!(
                    "`{name}` was already exported for the store {known}; imported into a second store, \
                     it would hand out the same keys twice. If that file was never imported, delete it \
                     and pass --replace-target"
                )));
            }
            _ => {}
        }
        let mut tuning = record.tuning.clone();
        tuning.exported_for = Some(for_store.to_owned());
        Ok(self.inner.fence.tune(name, &tuning).await?)
    }

    /// Begins to import a file that was looked at as a whole ([`ExportCheck`]).
    pub fn import_file(&self) -> MovedFile<'_> {
        MovedFile {
            service: self,
            header: None,
            importing: String::new(),
            waiting: Vec::new(),
            rows: 0,
            lines: 0,
            opened: None,
        }
    }

    async fn begin_import(&self, header: &Header, importing: &str) -> Result<(), ServiceError> {
        let MovedSpace { name, definition, tuning, fingerprint, .. } = &header.space;
        let bad = |problem: String| Err(ServiceError::BadImport(problem));
        if header.keymill_export != FORMAT {
            let found = header.keymill_export;
            return bad(format!("the file has format {found}; this version reads {FORMAT}"));
        }
        let identity = self.store().admin.identity().await?;
        if header.for_store != identity {
            return bad(format!(
                "the file is for the store {}, but this is {identity}: a keyspace can be moved to \
                 one store only",
                header.for_store
            ));
        }
        definition.check()?;
        header.space.check_numbers(definition.capacity()?).map_err(ServiceError::BadImport)?;
        let found = definition.fingerprint(name, self.master_for(name)?);
        if found != *fingerprint {
            return Err(ServiceError::WrongSecret {
                space: name.clone(),
                found: found.unwrap_or_default(),
                wanted: fingerprint.clone().unwrap_or_default(),
            });
        }
        self.check_store_can(definition.kind, tuning)?;
        let space = importing_space(&header.space, importing);
        match self.inner.fence.begin_import(&space).await? {
            Created::Made(_) => Ok(()),
            Created::Exists(known) if is_imported(&known, &header.space) => {
                bad(format!("`{name}` is already imported into this store; nothing was changed"))
            }
            Created::Exists(_) => bad(format!(
                "`{name}` already exists in this store and is not being imported from {importing}"
            )),
        }
    }
}

impl ExportFile {
    /// The next lines, at most about a thousand, each with its newline; `None` behind the last.
    pub async fn lines(&mut self) -> Result<Option<String>, ServiceError> {
        if self.ended {
            return Ok(None);
        }
        let mut text = String::new();
        if let Some(header) = self.header.take() {
            self.write(&Line::Export(header), &mut text);
        }
        let begin = |part: &Part| {
            let (space, part) = (self.space.clone(), *part);
            RowsPage { space, part, after: None, limit: PAGE }
        };
        let Some(mut page) = self.page.take().or_else(|| self.parts.next().map(begin)) else {
            let sha256 = hex::encode(std::mem::take(&mut self.hash).finalize());
            self.write(&Line::End { rows: self.rows, sha256 }, &mut text);
            self.ended = true;
            return Ok(Some(text));
        };
        let found = self.service.store().moves.moved_rows(&page).await?;
        for row in found.rows {
            self.write(&Line::Row(row), &mut text);
            self.rows += 1;
        }
        self.page = found.next.map(|next| {
            page.after = Some(next);
            page
        });
        Ok(Some(text))
    }

    /// How many rows were written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn write(&mut self, line: &Line, text: &mut String) {
        let line = as_line(line);
        add_line(&mut self.hash, &line);
        text.push_str(&line);
        text.push('\n');
    }
}

impl ExportCheck {
    /// Takes a line in.
    pub fn add(&mut self, line: &str) -> Result<(), ServiceError> {
        self.lines += 1;
        let bad = |problem: String| Err(ServiceError::BadImport(problem));
        match parse(line, self.lines)? {
            _ if self.ended => {
                return bad(format!("line {} comes after the end of the export", self.lines));
            }
            Line::End { rows, sha256 } => {
                let found = hex::encode(std::mem::take(&mut self.hash).finalize());
                if rows != self.rows || sha256 != found {
                    return bad(format!(
                        "the file was changed or is incomplete ({} rows of {rows}); export it \
                         again",
                        self.rows
                    ));
                }
                self.ended = true;
                return Ok(());
            }
            Line::Row(_) => self.rows += 1,
            Line::Export(_) => {}
        }
        add_line(&mut self.hash, line);
        Ok(())
    }

    /// How many rows the file has; an error where it has no end.
    pub fn finish(self) -> Result<u64, ServiceError> {
        if self.ended { Ok(self.rows) } else { Err(ends_early()) }
    }
}

impl MovedFile<'_> {
    /// Takes a line in.
    pub async fn add(&mut self, line: &str) -> Result<(), ServiceError> {
        self.lines += 1;
        match (parse(line, self.lines)?, &self.header) {
            (Line::Export(header), None) => {
                self.importing = format!("{}/{}", header.from_store, header.space.name);
                self.service.begin_import(&header, &self.importing).await?;
                self.header = Some(header);
                Ok(())
            }
            (Line::Row(row), Some(_)) if self.opened.is_none() => {
                self.waiting.push(row);
                self.rows += 1;
                if self.waiting.len() >= ROWS_MAX { self.flush().await } else { Ok(()) }
            }
            (Line::End { .. }, Some(_)) if self.opened.is_none() => self.end().await,
            _ => Err(ServiceError::BadImport(format!(
                "line {} is out of place: an export is one file, from its first line to its end",
                self.lines
            ))),
        }
    }

    /// How many rows were taken in.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The keyspace, opened; an error where the file has no end.
    pub fn finish(self) -> Result<SpaceRecord, ServiceError> {
        self.opened.ok_or_else(ends_early)
    }

    async fn flush(&mut self) -> Result<(), ServiceError> {
        let Some(header) = &self.header else { return Ok(()) };
        let rows = std::mem::take(&mut self.waiting);
        let fence = &self.service.inner.fence;
        let written = fence.import_rows(&header.space.name, &self.importing, &rows).await;
        written.map_err(import_refused)
    }

    async fn end(&mut self) -> Result<(), ServiceError> {
        self.flush().await?;
        let Some(header) = &self.header else { return Ok(()) };
        let space = importing_space(&header.space, &self.importing);
        let opened = self.service.inner.fence.finish_import(&space).await;
        self.opened = Some(opened.map_err(import_refused)?);
        Ok(())
    }
}

/// Whether a space is one that was moved here, with all its rows: no other was made at the very same time.
fn is_imported(known: &SpaceRecord, moved: &MovedSpace) -> bool {
    known.tuning.importing.is_none()
        && known.created_at == moved.created_at
        && known.fingerprint == moved.fingerprint
        && known.definition.differences(&moved.definition).is_empty()
}

/// What to say where rows are not written, or a space is not opened.
fn import_refused(error: StoreError) -> ServiceError {
    match error {
        StoreError::Outdated(space) => ServiceError::BadImport(format!(
            "`{space}` is no longer being imported: another import has finished it"
        )),
        StoreError::RolledBack(how) => {
            let mut how = RolledBack::clone(&how);
            // Rows that were written before may be missing.
            how.remedy.push_str(", then start the import again");
            ServiceError::RolledBack(Arc::new(how))
        }
        error => error.into(),
    }
}

/// Whether a text can be the identity of a store.
fn is_identity(text: &str) -> bool {
    text.len() == IDENTITY_LEN && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn importing_space(space: &MovedSpace, importing: &str) -> MovedSpace {
    let mut space = space.clone();
    space.tuning.importing = Some(importing.to_owned());
    space
}

fn parse(line: &str, number: u64) -> Result<Line, ServiceError> {
    serde_json::from_str(line).map_err(|error| {
        ServiceError::BadImport(format!("line {number} is not part of an export: {error}"))
    })
}

fn ends_early() -> ServiceError {
    let problem = "the file ends early: a part of it is missing. Export the keyspace again";
    ServiceError::BadImport(problem.to_owned())
}

fn add_line(hash: &mut Sha256, line: &str) {
    hash.update(line.as_bytes());
    hash.update(b"\n");
}

fn as_line(line: &Line) -> String {
    serde_json::to_string(line).expect("rows are plain data")
}
