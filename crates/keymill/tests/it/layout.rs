//! The rooms of the libraries use each other in one direction: what a newcomer reads off the drawing in
//! ARCHITECTURE.md is what the `use` lines say. Only the fence changes a store, and nobody else knows of floors.
//!
//! Every source file is read as text. A path that begins with `crate::`, or with enough `super::` to get there, makes
//! an edge from the file's top-level module to the one that it names, or that what it names is exported from. Tests
//! inside the libraries are left out: they may look at everything.

mod sources;

use std::collections::{BTreeMap, BTreeSet};

use sources::{Source, code_of, sources};

const ENGINE: &str = "../keymill-engine/src";

/// The rooms of each crate, as its `lib.rs` lists them: each uses rooms that stand after it.
const ROOMS: [(&str, &[&str]); 2] = [
    ("src", &["cli", "config", "server", "front", "page", "access", "metrics"]),
    (
        ENGINE,
        &[
            "internals",
            "keyspace",
            "keymill",
            "shape",
            "operations",
            "supply",
            "source",
            "fence",
            "store",
            "space",
            "instance",
            "clock",
            "latency",
        ],
    ),
];

/// Of the engine's, those that stand after a room and are still not for it: a source knows no store.
const APART: [(&str, &str); 2] = [("source", "fence"), ("source", "store")];

/// The methods of a store's parts that change it.
const CHANGES: [(&str, &[&str]); 11] = [
    ("Admin", &["secret", "forget_secret", "migrate"]),
    ("Digests", &["digest"]),
    ("Instances", &["heartbeat"]),
    ("Leases", &["lease", "give_back"]),
    ("Moves", &["begin_import", "import_rows", "finish_import"]),
    ("Names", &["add_names", "remove_name"]),
    ("Pools", &["fill", "claim", "release"]),
    ("Spaces", &["create", "tune", "grow", "seal", "advance", "report_sighting"]),
    ("Tokens", &["replace_tokens", "record_act"]),
    ("UseLog", &["note", "retire"]),
    ("Windows", &["window", "release_window"]),
];

/// Those that only read.
const READS: [(&str, &[&str]); 11] = [
    ("Admin", &["identity", "check", "describe", "floor_file"]),
    ("Instances", &["instances"]),
    ("Leases", &["lease_of", "leases"]),
    ("Moves", &["moved_rows"]),
    ("Names", &["named", "names", "names_max", "count_names"]),
    ("Pools", &["available", "find", "imported", "available_page", "fill_max"]),
    ("Snapshots", &["confirm", "names_without_ordinal"]),
    ("Spaces", &["space", "spaces", "sighted"]),
    ("Tokens", &["tokens", "acts"]),
    ("UseLog", &["used_page", "notes_keys"]),
    ("Windows", &["clock_ms"]),
];

/// Calls outside the fence that have the name of a change and are none: by file, on what.
const HOMONYMS: [(&str, &str); 14] = [
    ("keymill.rs", ").create("),
    ("operations/advance.rs", "after.advance("),
    ("operations/advance.rs", "tuning.window("),
    ("operations/export.rs", "service.begin_import("),
    ("operations/spaces.rs", "definition.grow("),
    ("operations/take.rs", "usage.note("),
    ("operations/use_log.rs", "recorder.note("),
    ("source/leased.rs", "leases.seal("),
    ("source/leased.rs", "returned.seal("),
    ("supply/leases.rs", "mill.fill("),
    ("supply/leases.rs", "mill.seal("),
    ("supply/leases.rs", "pool.claim("),
    ("supply/leases.rs", "pool.give_back("),
    ("supply/windows.rs", "tuning.window("),
];

/// An edge of the graph: from a room to another, and the first line that makes it.
type Edges = BTreeMap<(String, String), String>;

#[test]
fn rooms_use_each_other_in_one_direction() {
    for (folder, rooms) in ROOMS {
        let sources = sources(folder);
        let there: BTreeSet<&str> =
            sources.iter().map(Source::room).filter(|it| !it.is_empty()).collect();
        assert_eq!(
            there,
            rooms.iter().copied().collect(),
            "{folder}: the rooms, and those on the list"
        );
        let edges = edges_of(&sources, &there);
        assert!(!edges.is_empty(), "{folder}: no room uses another, which cannot be true");
        let rank = |room: &str| rooms.iter().position(|it| *it == room);
        for ((from, to), first) in &edges {
            assert!(
                rank(from) < rank(to),
                "{from} uses {to}, which stands above it: {folder}/{first}"
            );
            let apart = folder == ENGINE && APART.contains(&(from, to));
            assert!(!apart, "{from} uses {to}, of which it should know nothing: {folder}/{first}");
        }
    }
}

/// What was seen of a store guards every change of it, so there is one place where changes are made.
#[test]
fn only_the_fence_knows_of_floors_and_changes_a_store() {
    let sources = sources(ENGINE);
    let (mut fenced, mut homonyms) = (BTreeSet::new(), BTreeSet::new());
    for Source { file, code, .. } in sources.iter().filter(|it| it.room() != "store") {
        let is_fence = file.starts_with("fence");
        for call in changes_in(code) {
            let homonym = HOMONYMS.into_iter().find(|it| *it == (file.as_str(), call.as_str()));
            match homonym {
                _ if is_fence => drop(fenced.insert(method_of(&call).to_owned())),
                Some(homonym) => drop(homonyms.insert(homonym)),
                None => panic!("{file} changes a store: {call}"),
            }
        }
        let knows_floors = code.to_lowercase().contains("floor");
        assert!(is_fence || !knows_floors, "{file} knows of floors");
    }
    let fenced: BTreeSet<&str> = fenced.iter().map(String::as_str).collect();
    assert_eq!(fenced, all(&CHANGES), "the changes that the fence makes, and all that there are");
    assert_eq!(homonyms, HOMONYMS.into(), "the homonyms found, and those on the list");
}

/// So that no change can be forgotten on the list.
#[test]
fn every_method_of_a_store_is_listed_as_a_change_or_as_a_read() {
    let listed = CHANGES.iter().chain(&READS).flat_map(|(part, methods)| {
        methods.iter().map(move |method| ((*part).to_owned(), (*method).to_owned()))
    });
    let mut found = BTreeSet::new();
    for source in sources(ENGINE).iter().filter(|it| it.room() == "store" && it.module.len() == 2) {
        found.extend(methods_in(&source.code));
    }
    assert_eq!(found, listed.collect(), "the methods of a store's parts, and those on the lists");
    assert!(all(&CHANGES).is_disjoint(&all(&READS)), "a change has the name of a read");
}

#[test]
fn a_change_is_found_however_it_is_written() {
    let check = |code: &str, calls: &[&str]| assert_eq!(changes_in(code), calls, "{code}");
    check("let it = self\n    .store()\n    .leases\n    .lease(&ask);", &["leases.lease("]);
    check("self.pools(&ask.space)?.claim(ask, &it); it.fill(&fill)", &["it.fill(", "?.claim("]);
    check("rows_of(space)?.pools\n.release(&back)", &["pools.release("]);
    check("parts[0].lease(&ask); f().lease(&ask)", &["].lease(", ").lease("]);
    check("Leases::lease(&*part, &ask); map(Pools::claim)", &["Leases::lease", "Pools::claim"]);
    check("fence.lease(&ask); self.lease(&ask); fn lease(&self)", &[]);
    check("admin.secret(None); Tuning::window(it); a_lease(); leases.leases(&page)", &[]);
    check("admin.secret(Some(it)); match fence.lease(&ask)", &["admin.secret("]);
}

#[test]
fn the_methods_of_traits_are_found() {
    let code = "impl A for B {\n    fn c(&self) {}\n}\n\
                pub trait D: Send {\n    async fn e(\n        &self,\n    );\n    fn f(&self) -> u8 {\n        1\n    }\n}\n\
                fn g() {}\n";
    let found = [("D", "e"), ("D", "f")].map(|(part, it)| (part.to_owned(), it.to_owned()));
    assert_eq!(methods_in(code), found);
}

/// What suites, proofs and benches may look at is not for the binary.
#[test]
fn the_binary_uses_no_internals_of_the_engine() {
    for Source { file, code, .. } in sources("src") {
        assert!(!code.contains("internals"), "{file} looks inside the engine");
    }
}

#[test]
fn paths_are_read_as_the_compiler_reads_them() {
    let text = "use crate::store::{A, B}; // crate::comment::C\n\
                let it = crate::space::D::new(\"crate::text::E\");\n\
                use super::super::fence::F;\n\
                use crate::Service;\n\
                #[cfg(test)]\nmod tests {\n    use crate::hidden::G;\n}\n";
    let found =
        |depth| -> Vec<String> { used(&code_of(text), depth).into_iter().map(|it| it.1).collect() };
    assert_eq!(found(2), ["store", "space", "fence", "Service"]);
    assert_eq!(found(3), ["store", "space", "Service"]);
    let exports = exports(
        "pub use operations::{Explanation, ServiceError as Error,\n State};\npub use shape::Shape;",
    );
    let exports: Vec<(&str, &str)> =
        exports.iter().map(|(name, room)| (&**name, &**room)).collect();
    let expected = [
        ("Error", "operations"),
        ("Explanation", "operations"),
        ("Shape", "shape"),
        ("State", "operations"),
    ];
    assert_eq!(exports, expected);
}

fn edges_of(sources: &[Source], rooms: &BTreeSet<&str>) -> Edges {
    let root = sources.iter().find(|it| it.file == "lib.rs").expect("a library has a root");
    let exports = exports(&root.code);
    let mut edges = Edges::new();
    for source in sources.iter().filter(|it| !it.module.is_empty()) {
        for (line, name) in used(&source.code, source.module.len()) {
            let used = exports.get(&name).unwrap_or(&name);
            let place = format!("{}:{line}", source.file);
            assert!(rooms.contains(used.as_str()), "no room is or exports `{name}`: {place}");
            if used != source.room() {
                edges.entry((source.room().to_owned(), used.clone())).or_insert(place);
            }
        }
    }
    edges
}

/// What the root of a crate exports, and the room that it is from.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in root.split(';') {
        let Some((_, path)) = statement.split_once("pub use ") else { continue };
        let (room, names) = path.split_once("::").expect("a root exports what rooms have");
        for name in names.trim_matches(['{', '}']).split(',') {
            let name = name.trim().rsplit([' ', ':']).next().unwrap_or_default();
            exports.insert(name.to_owned(), room.to_owned());
        }
    }
    exports
}

/// What a file of this depth names at the root of its crate, with the lines that do so.
fn used(code: &str, depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let to_root = "super::".repeat(depth);
    for (number, line) in code.lines().enumerate() {
        for start in ["crate::", to_root.as_str()] {
            for (at, _) in line.match_indices(start) {
                if line[..at].ends_with(|it| is_of_name(it) || matches!(it, ':' | '$')) {
                    continue;
                }
                let name = leading_name(&line[at + start.len()..]);
                assert!(!name.is_empty(), "say `use crate::room::…`, one room a line: {line}");
                if name != "super" {
                    found.push((number + 1, name.to_owned()));
                }
            }
        }
    }
    found
}

/// The calls that have the name of a change of a store, with what they are made on, by method. The fence's own and
/// those on `self` are none, for nothing but `store` implements a part; nor is reading a secret.
fn changes_in(code: &str) -> Vec<String> {
    // A call may stand on several lines.
    let code = code.split_whitespace().collect::<Vec<_>>().join(" ").replace(" .", ".");
    let mut found = Vec::new();
    for (part, methods) in CHANGES {
        for method in methods {
            let call = format!(".{method}(");
            for (at, _) in code.match_indices(&call) {
                let before = code[..at].trim_end_matches(is_of_name);
                let on = match &code[before.len()..at] {
                    "" => &code[at - 1..at],
                    name => name,
                };
                let reads = call == ".secret(" && code[at + call.len()..].starts_with("None)");
                if !reads && !matches!(on, "self" | "fence") {
                    found.push(format!("{on}{call}"));
                }
            }
            let path = format!("{part}::{method}");
            let ends = |at: usize| !code[at + path.len()..].starts_with(is_of_name);
            let paths = code.match_indices(&path).filter(|(at, _)| ends(*at));
            found.extend(paths.map(|_| path.clone()));
        }
    }
    found
}

/// The method of a call that was found.
fn method_of(call: &str) -> &str {
    call.trim_end_matches('(').rsplit(['.', ':']).next().unwrap_or_default()
}

/// The traits of a file, with their methods.
fn methods_in(code: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut part = None;
    for line in code.lines() {
        if let Some(name) =
            line.strip_prefix("pub trait ").or_else(|| line.strip_prefix("pub(crate) trait "))
        {
            part = Some(leading_name(name).to_owned());
        } else if line == "}" {
            part = None;
        } else if let Some(part) = &part
            && let Some((_, method)) = line.split_once("fn ")
            && line.starts_with("    ")
            && !line.starts_with("     ")
        {
            found.push((part.clone(), leading_name(method).to_owned()));
        }
    }
    found
}

fn all(lists: &[(&str, &'static [&'static str])]) -> BTreeSet<&'static str> {
    lists.iter().flat_map(|(_, methods)| methods.iter().copied()).collect()
}

fn leading_name(text: &str) -> &str {
    text.split(|it| !is_of_name(it)).next().unwrap_or_default()
}

fn is_of_name(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}
