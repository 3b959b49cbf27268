//! Pools, filled and listed; and imports of keys, one per line.

use bytes::Bytes;
use keymill_client::raw::Method;
use keymill_engine::operations::{AvailablePage, Filling, Import, ImportInto, Service};

use super::refusal::code_of;
use super::server::pages;
use super::{Server, Site};
use crate::cli::import::Input;
use crate::front::http::views::{AvailableKeys, FillAsk, FillView, ImportView};

/// How many keys are read at once.
const PAGE: u32 = 10_000;
/// How many lines are imported together on a store: about 100 MB.
const LINES: usize = 1_000_000;
/// How many bytes of a file are sent at once. Proxies pass on a megabyte by default.
const PART: usize = 900_000;

/// How far an import has come.
#[derive(Debug, Default)]
pub(in crate::cli) struct ImportProgress {
    /// How many bytes were read since the last time.
    pub(in crate::cli) read: u64,
    /// How many keys are new, so far.
    pub(in crate::cli) made: u64,
    /// How many were there already.
    pub(in crate::cli) known: u64,
    /// How many lines were refused.
    pub(in crate::cli) refused_count: u64,
    /// The refused lines that were not told yet: their numbers, and why.
    pub(in crate::cli) refused: Vec<(u64, String)>,
}

impl Site {
    /// Writes new keys into a pool; `each` hears how many were added, and how many are left. Returns how many were
    /// added in all.
    pub(in crate::cli) async fn fill_pool(
        &self,
        space: &str,
        filling: Filling,
        each: impl FnMut(u64, u64),
    ) -> anyhow::Result<u64> {
        match self {
            Site::Store(service) => Ok(service.fill_pool(space, filling, each).await?),
            Site::Server(server) => server.fill_pool(space, filling, each).await,
        }
    }

    /// The keys of a pool, in the order in which they will be handed out; `each` is given a page of them.
    pub(in crate::cli) async fn available_keys(
        &self,
        space: &str,
        mut each: impl FnMut(Vec<String>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let service = match self {
            Site::Store(service) => service,
            Site::Server(server) => {
                let pages = pages(
                    || server.ask_in(space, Method::GET, "/pool"),
                    |page: AvailableKeys| {
                        each(page.keys)?;
                        Ok(page.next)
                    },
                );
                return pages.await;
            }
        };
        let mut page = AvailablePage { space: space.to_owned(), after: None, limit: PAGE };
        loop {
            let keys = service.available_keys(&page).await?;
            page.after = keys.last().cloned().filter(|_| keys.len() >= PAGE as usize);
            each(keys.into_iter().map(|claimed| claimed.key).collect())?;
            if page.after.is_none() {
                return Ok(());
            }
        }
    }

    /// Imports keys, one per line; `each` hears how far it has come, and lastly that nothing more was read.
    pub(in crate::cli) async fn import(
        &self,
        space: &str,
        into: ImportInto,
        input: &mut Input,
        each: impl FnMut(&ImportProgress),
    ) -> anyhow::Result<()> {
        match self {
            Site::Store(service) => import_here(service, space, into, input, each).await,
            Site::Server(server) => server.import(space, into, input, each).await,
        }
    }
}

async fn import_here(
    service: &Service,
    space: &str,
    into: ImportInto,
    input: &mut Input,
    mut each: impl FnMut(&ImportProgress),
) -> anyhow::Result<()> {
    match into {
        ImportInto::Pool => service.check_pool(space).await?,
        // Fails if the keyspace does not exist; the import of an empty file would not.
        ImportInto::Used => drop(service.report(space).await?),
    }
    let mut import = Import::new(service, space, into, LINES);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = input.read(&mut buffer)?;
        match read {
            0 => import.finish().await?,
            _ => import.push(&buffer[..read]).await?,
        }
        let report = import.tell();
        each(&ImportProgress {
            read: read as u64,
            made: report.made,
            known: report.known,
            refused_count: report.refused_count,
            refused: report.refused,
        });
        if read == 0 {
            return Ok(());
        }
    }
}

impl Server {
    /// A request adds a limited number of keys, so it is repeated until none are left to add.
    async fn fill_pool(
        &self,
        space: &str,
        filling: Filling,
        mut each: impl FnMut(u64, u64),
    ) -> anyhow::Result<u64> {
        let mut ask = match filling {
            Filling::Add(count) => FillAsk { count: Some(count), up_to: None },
            Filling::UpTo(up_to) => FillAsk { count: None, up_to: Some(up_to) },
        };
        let mut added = 0;
        loop {
            let fill = self.ask_in(space, Method::POST, "/pool/fill").json(&ask);
            // To add as many once more would be too many.
            let fill = if ask.up_to.is_some() { fill.repeatable() } else { fill };
            let filled: FillView = match fill.read().await {
                Err(error) if code_of(&error) == Some("exhausted") && added > 0 => break,
                filled => filled?,
            };
            added += filled.added.get();
            each(filled.added.get(), filled.left.get());
            if filled.left.get() == 0 || filled.is_used_up {
                break;
            }
            ask.count = ask.count.map(|_| filled.left.get());
        }
        Ok(added)
    }

    /// A file is sent in parts, so that none takes long and each can be repeated: what was imported is known then.
    async fn import(
        &self,
        space: &str,
        into: ImportInto,
        input: &mut Input,
        mut each: impl FnMut(&ImportProgress),
    ) -> anyhow::Result<()> {
        let path = match into {
            ImportInto::Pool => "/pool",
            ImportInto::Used => "/used-keys",
        };
        let mut parts = Parts::new(input);
        let mut all = ImportProgress::default();
        let mut is_first = true;
        // An empty file is sent, too: it shows whether the keyspace can be imported into.
        while let Some(part) = parts.next()?.or_else(|| is_first.then(Part::empty)) {
            is_first = false;
            let read = part.text.len() as u64;
            let ask = self.ask_in(space, Method::POST, path).text(part.text).repeatable();
            let report: ImportView =
                ask.query("first_line", &part.first_line.to_string()).read().await?;
            all.read = read;
            all.made += report.imported;
            all.known += report.already_there;
            all.refused_count += report.refused_count;
            all.refused = report.refused.into_iter().map(|it| (it.line, it.reason)).collect();
            each(&all);
        }
        (all.read, all.refused) = (0, Vec::new());
        each(&all);
        Ok(())
    }
}

/// A file, in parts that end with a line.
struct Parts<'a> {
    input: &'a mut Input,
    /// What was read behind the last part.
    rest: Vec<u8>,
    line: u64,
    has_ended: bool,
}

struct Part {
    text: Bytes,
    /// The number of its first line.
    first_line: u64,
}

impl Part {
    fn empty() -> Part {
        Part { text: Bytes::new(), first_line: 1 }
    }
}

impl<'a> Parts<'a> {
    fn new(input: &'a mut Input) -> Parts<'a> {
        Parts { input, rest: Vec::new(), line: 1, has_ended: false }
    }

    /// The next part; `None` behind the last. A line that is longer than a part is a part of its own, as far as it
    /// goes: it is refused anyway.
    fn next(&mut self) -> anyhow::Result<Option<Part>> {
        let mut buffer = vec![0; 1 << 16];
        while self.rest.len() < PART && !self.has_ended {
            let read = self.input.read(&mut buffer)?;
            self.rest.extend_from_slice(&buffer[..read]);
            self.has_ended = read == 0;
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let end = match self.rest.iter().rposition(|byte| *byte == b'\n') {
            Some(last) if !self.has_ended => last + 1,
            _ => self.rest.len(),
        };
        let rest = self.rest.split_off(end);
        let text = Bytes::from(std::mem::replace(&mut self.rest, rest));
        let first_line = self.line;
        self.line += text.iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(Some(Part { text, first_line }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_sent_in_parts_that_end_with_a_line() {
        let lines: String = (0..300_000).map(|number| format!("key{number}\n")).collect();
        let text = format!("{lines}the last");
        let mut input = Input::of(text.clone().into_bytes());
        let mut parts = Parts::new(&mut input);
        let (mut all, mut line) = (Vec::new(), 1);
        while let Some(part) = parts.next().unwrap() {
            assert_eq!(part.first_line, line);
            assert!(part.text.len() <= PART + (1 << 16), "{}", part.text.len());
            line += part.text.iter().filter(|byte| **byte == b'\n').count() as u64;
            all.extend_from_slice(&part.text);
        }
        assert_eq!((all, line), (text.into_bytes(), 300_001));
        assert!(Parts::new(&mut Input::of(Vec::new())).next().unwrap().is_none());
    }
}
