//! The source files of a crate, read as text: which there are, which module each is, and its code without comments,
//! texts and tests.

use std::fs;
use std::path::{Path, PathBuf};

/// A source file.
pub(super) struct Source {
    /// Below the folder of the sources, as in `operations/take.rs`.
    pub(super) file: String,
    /// The module that it is; empty for the root of the crate.
    pub(super) module: Vec<String>,
    /// Its lines with nothing but code in them.
    pub(super) code: String,
}

impl Source {
    /// The top-level module that it belongs to.
    pub(super) fn room(&self) -> &str {
        self.module.first().map_or("", String::as_str)
    }
}

/// The sources of a folder, as it is seen from this crate, without those that are tests.
pub(super) fn sources(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files = Vec::new();
    find(&root, &mut files);
    files.sort();
    let read = |file: &PathBuf| {
        let below = file.strip_prefix(&root).unwrap();
        let code = code_of(&fs::read_to_string(file).unwrap());
        Source { file: below.display().to_string(), module: module_of(below), code }
    };
    files.iter().map(read).collect()
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy();
        let is_test = stem == "tests" || stem.ends_with("_tests");
        if path.is_dir() && !is_test {
            find(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") && !is_test {
            files.push(path);
        }
    }
}

fn module_of(file: &Path) -> Vec<String> {
    let path = file.with_extension("");
    let names: Vec<String> = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    match names.as_slice() {
        [only] if only == "lib" || only == "main" => Vec::new(),
        _ => names,
    }
}

/// The code of a file, on the lines where it stands.
pub(super) fn code_of(text: &str) -> String {
    let mut rest = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut code = String::new();
    while let Some(first) = rest.chars().next() {
        let length = no_code(rest);
        if length == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(rest[..length].chars().filter(|it| *it == '\n'));
            rest = &rest[length..];
        }
    }
    code
}

/// How long a comment, a text or a character is that begins here; 0 where none does.
fn no_code(rest: &str) -> usize {
    let up_to = |end: &str, from: usize| {
        rest[from..].find(end).map_or(rest.len(), |length| from + length + end.len())
    };
    let after_hashes = rest.strip_prefix('r').map(|it| it.trim_start_matches('#'));
    if rest.starts_with("//") {
        rest.find('\n').unwrap_or(rest.len())
    } else if rest.starts_with("/*") {
        up_to("*/", 2)
    } else if let Some(raw) = after_hashes.filter(|it| it.starts_with('"')) {
        let hashes = rest.len() - raw.len() - 1;
        up_to(&format!("\"{}", "#".repeat(hashes)), 2 + hashes)
    } else if let Some(text) = rest.strip_prefix('"') {
        let mut escaped = false;
        let end = text.find(|it| {
            let is_end = it == '"' && !escaped;
            escaped = it == '\\' && !escaped;
            is_end
        });
        end.map_or(rest.len(), |length| length + 2)
    } else if rest.starts_with("'\\") {
        up_to("'", 3)
    } else if rest.starts_with('\'') && rest.chars().nth(2) == Some('\'') {
        up_to("'", rest.char_indices().nth(2).map_or(0, |(at, _)| at))
    } else {
        0
    }
}

#[test]
fn nothing_but_code_is_read() {
    let check = |text: &str, code: &str| assert_eq!(code_of(text), code, "{text}");
    check("a(); // b()\nc();", "a(); \nc();");
    check("/// a()\nb(/* c */);", "\nb();");
    check(r#"a("b \" // c", 'd', '\'', '"', '…');"#, "a(, , , , );");
    check("a(r#\"b \" c\"#, r\"d\\\");", "a(, );");
    check("fn a<'a>(b: &'a str) {}", "fn a<'a>(b: &'a str) {}");
    check("a(\"b\nc\");", "a(\n);");
    check(
        "#[cfg(test)]\nmod tests;\na();\n#[cfg(test)]\nmod tests {\nb();",
        "#[cfg(test)]\nmod tests;\na();",
    );
}
