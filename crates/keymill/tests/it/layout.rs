//! The rooms of the library use each other in one direction: what a newcomer reads off the drawing in
//! ARCHITECTURE.md is what the `use` lines say.
//!
//! Every source file is read as text. Only the fence changes a store, and nobody else knows of floors. A path that begins with `crate::`, or with enough `super::` to get
//! there, makes an edge from the file's top-level module to the one that it names. Tests inside the
//! library are left out: they may look at everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the rooms of each crate are.
const CRATES: [&str; 2] = ["src", "../keymill-engine/src"];

/// What changes a store: the part that it is asked of, and how.
const CHANGES: [&str; 27] = [
    "spaces.create(",
    "spaces.tune(",
    "spaces.grow(",
    "spaces.seal(",
    "spaces.advance(",
    "spaces.report_sighting(",
    "leases.lease(",
    "leases.give_back(",
    "windows.window(",
    "windows.release_window(",
    "names.add_names(",
    "names.remove_name(",
    "moves.begin_import(",
    "moves.import_rows(",
    "moves.finish_import(",
    "instances.heartbeat(",
    "tokens.replace_tokens(",
    "tokens.record_act(",
    "admin.secret(Some(",
    "admin.forget_secret(",
    "admin.migrate(",
    "pools.fill(",
    "pools.claim(",
    "pools.release(",
    "use_log.note(",
    "use_log.retire(",
    "digests.digest(",
];

/// An edge of the graph: from a room to another, and the first line that makes it.
type Edges = BTreeMap<(String, String), String>;

#[test]
fn rooms_use_each_other_in_one_direction() {
    for folder in CRATES {
        let edges = edges_of(folder);
        assert!(!edges.is_empty(), "{folder}: no room uses another, which cannot be true");
        let all: BTreeSet<(&str, &str)> = names(&edges).collect();
        for (from, to) in &all {
            if let Some(way) = way(&all, to, from) {
                let first = &edges[&((*from).to_owned(), (*to).to_owned())];
                panic!("{folder}: a cycle: {from} -> {} (see {first})", way.join(" -> "));
            }
        }
    }
}

/// What was seen of a store guards every change of it, so there is one place where changes are made.
#[test]
fn only_the_fence_knows_of_floors_and_changes_a_store() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../keymill-engine/src");
    let mut fenced = 0;
    for file in sources(&root) {
        let text = fs::read_to_string(&file).unwrap();
        let changes = changes_in(&text);
        match path_of(&root, &file).first().map(String::as_str) {
            Some("fence") => fenced += changes.len(),
            Some("store") => {}
            _ => assert!(changes.is_empty(), "{}: {changes:?}", file.display()),
        }
    }
    assert!(fenced >= 20, "the fence makes only {fenced} changes, which cannot be true");
}

#[test]
fn a_change_is_found_however_it_is_written() {
    assert_eq!(
        changes_in("let it = self\n    .store()\n    .leases\n    .lease(&ask);"),
        ["leases.lease("]
    );
    assert_eq!(changes_in("pools.fill(&fill); // pools.claim("), ["pools.fill("]);
    assert_eq!(changes_in("let floor = 1;"), ["a floor"]);
    assert_eq!(changes_in("use crate::store::Floor;"), ["a floor"]);
    assert!(changes_in("/// The floor.\nfence.lease(&ask); admin.secret(None);").is_empty());
}

/// What suites, proofs and benches may look at is not for the binary.
#[test]
fn the_binary_uses_no_internals_of_the_engine() {
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains("internals"), "{} looks inside the engine", file.display());
    }
}

#[test]
fn a_cycle_and_the_way_around_it_are_found() {
    let edges = BTreeSet::from([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]);
    assert_eq!(way(&edges, "b", "a"), Some(vec!["b", "c", "a"]));
    assert_eq!(way(&edges, "d", "a"), None);
}

#[test]
fn paths_are_read_as_the_compiler_reads_them() {
    let text = "use crate::store::{A, B}; // crate::comment::C\n\
                let it = crate::space::D::new(\"crate::text::E\");\n\
                use super::super::fence::F;\n\
                #[cfg(test)]\nmod tests {\n    use crate::hidden::G;\n}\n";
    let found = |depth| -> Vec<String> { used(text, depth).into_iter().map(|it| it.1).collect() };
    assert_eq!(found(2), ["store", "space", "fence"]);
    assert_eq!(found(3), ["store", "space"]);
}

fn names(edges: &Edges) -> impl Iterator<Item = (&str, &str)> {
    edges.keys().map(|(from, to)| (from.as_str(), to.as_str()))
}

/// The rooms on a way from one to another, both included.
fn way<'a>(edges: &BTreeSet<(&'a str, &'a str)>, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![from]];
    let mut seen = BTreeSet::from([from]);
    while let Some(way) = ways.pop() {
        let last = *way.last()?;
        if last == to {
            return Some(way);
        }
        for (_, next) in edges.iter().filter(|(start, _)| *start == last) {
            if seen.insert(*next) {
                ways.push(way.iter().copied().chain([*next]).collect());
            }
        }
    }
    None
}

fn edges_of(folder: &str) -> Edges {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = sources(&root);
    let rooms: BTreeSet<String> =
        files.iter().filter_map(|file| path_of(&root, file).first().cloned()).collect();
    let mut edges = Edges::new();
    for file in &files {
        let path = path_of(&root, file);
        let Some(room) = path.first() else { continue };
        let text = fs::read_to_string(file).unwrap();
        for (line, used) in used(&text, path.len()) {
            if used != *room && rooms.contains(&used) {
                let place = format!("{}:{line}", file.display());
                edges.entry((room.clone(), used)).or_insert(place);
            }
        }
    }
    edges
}

/// The source files of a folder, without those that are tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|it| it == "rs")
            && stem != "tests"
            && !stem.ends_with("_tests")
        {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The module that a file is: empty for the root of the crate.
fn path_of(root: &Path, file: &Path) -> Vec<String> {
    let path = file.strip_prefix(root).unwrap().with_extension("");
    let names: Vec<String> = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    match names.as_slice() {
        [only] if only == "lib" || only == "main" => Vec::new(),
        _ => names,
    }
}

/// The top-level modules that a file of this depth names, with the lines that do so.
fn used(text: &str, depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("#[cfg(test)]")
            && text.lines().nth(number + 1).is_some_and(|it| it.starts_with("mod tests {"))
        {
            break;
        }
        let code = without_texts(line.split("//").next().unwrap_or_default());
        assert!(!code.contains("crate::{"), "say `use crate::room::…`, one room a line: {line}");
        let to_root = "super::".repeat(depth);
        for start in ["crate::", to_root.as_str()] {
            for (at, _) in code.match_indices(start) {
                let before = code[..at].chars().next_back();
                if before.is_some_and(|it| it.is_alphanumeric() || matches!(it, '_' | ':' | '$')) {
                    continue;
                }
                let rest = &code[at + start.len()..];
                let name: String =
                    rest.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
                if !name.is_empty() && name != "super" {
                    found.push((number + 1, name));
                }
            }
        }
    }
    found
}

/// The changes of a store that a file makes, and whether it names a floor. Comments and tests are left out.
fn changes_in(text: &str) -> Vec<&'static str> {
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    // A call may stand on several lines.
    let code: String = code.flat_map(str::chars).filter(|it| !it.is_whitespace()).collect();
    let mut found: Vec<&str> = CHANGES.into_iter().filter(|change| code.contains(change)).collect();
    found.extend(code.to_lowercase().contains("floor").then_some("a floor"));
    found
}

/// A line without what stands between quotation marks.
fn without_texts(line: &str) -> String {
    line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}
