//! What the documentation lists is what the sources have: error codes, exit codes, routes, and the tests that it names.
//!
//! Sources and pages are read as text. Shell lines and links are `docs/check`'s, which needs a binary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const ERRORS: &str = include_str!("../../../../docs/errors.md");
const API: &str = include_str!("../../../../docs/api.md");
const DESIGNS: &str = include_str!("../../../../docs/designs.md");
const CODES: &str = include_str!("../../src/front/http/codes.rs");

#[test]
fn the_page_of_error_codes_has_the_table_of_the_sources() {
    let page = ERRORS.split("<!-- codes -->\n").nth(1).unwrap();
    let page = page.split("<!-- /codes -->").next().unwrap();
    let head = "| code | status | what happened | what to do |\n| --- | --- | --- | --- |\n";
    let expected =
        entries().iter().fold(head.to_owned(), |table, [code, status, meaning, remedy]| {
            table + &format!("| `{code}` | {status} | {meaning} | {remedy} |\n")
        });
    assert!(entries().len() > 50, "the search finds too little: {}", entries().len());
    for (page, expected) in page.lines().zip(expected.lines()) {
        assert_eq!(page, expected, "docs/errors.md differs from front/http/codes.rs");
    }
    assert_eq!(page.lines().count(), expected.lines().count(), "it should be\n{expected}");
}

#[test]
fn the_page_of_error_codes_has_the_exit_codes_of_the_command_line() {
    let source = include_str!("../../src/cli/site/refusal.rs");
    let source = source.split("pub(in crate::cli) fn exit_code(").nth(1).unwrap();
    let source = source.split("\n}\n").next().unwrap();
    let known: BTreeSet<String> = entries().iter().map(|[code, ..]| code.clone()).collect();
    let mut expected: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for arm in source.split("=>").zip(source.split("=>").skip(1)) {
        let exit_code = arm.1.trim().split([',', '\n']).next().unwrap();
        let named = quoted(arm.0.rsplit('\n').next().unwrap(), '"');
        expected
            .entry(exit_code)
            .or_default()
            .extend(named.into_iter().filter(|it| known.contains(it)));
    }
    let section = ERRORS.split("## Exit codes").nth(1).unwrap();
    for exit_code in ["2", "3", "4", "5", "6"] {
        let row =
            section.lines().find(|line| line.starts_with(&format!("| {exit_code} |"))).unwrap();
        let listed: BTreeSet<String> =
            quoted(row, '`').into_iter().filter(|it| known.contains(it)).collect();
        assert_eq!(Some(&listed), expected.get(exit_code), "the row of exit code {exit_code}");
    }
}

#[test]
fn the_page_of_error_codes_has_the_words_of_every_protocol() {
    let grpc = include_str!("../../src/front/grpc/status.rs");
    let grpc = grpc.split("fn code(").nth(1).unwrap().split("\n}\n").next().unwrap();
    let words: Vec<String> = grpc.split("Code::").skip(1).map(screaming).collect();
    assert!(words.len() > 8, "the search finds too little: {words:?}");
    let redis = include_str!("../../src/front/redis/failure.rs");
    let redis = redis.split("let word = match code {").nth(1).unwrap().split("};").next().unwrap();
    let redis = redis.split("=> \"").skip(1).map(|it| it.split('"').next().unwrap().to_owned());
    for word in words.into_iter().chain(redis) {
        assert!(ERRORS.contains(&format!("`{word}")), "docs/errors.md lacks {word}");
    }
}

#[test]
fn the_page_of_error_codes_has_every_problem_of_an_instance() {
    let health = include_str!("../../../keymill-engine/src/operations/health.rs");
    let section = ERRORS.split("## Problems of an instance").nth(1).unwrap();
    let mut found = 0;
    for call in health.split("problem(").skip(1) {
        let Some(code) = call.trim_start().strip_prefix('"') else { continue };
        let code = code.split('"').next().unwrap();
        assert!(section.contains(&format!("`{code}`")), "docs/errors.md lacks the problem {code}");
        found += 1;
    }
    assert!(found > 6, "the search finds too little: {found}");
}

#[test]
fn the_page_of_the_api_has_every_route() {
    let source = include_str!("../../src/front/http/routes.rs");
    let mut routes = quoted(source, '"');
    routes.retain(|it| it.starts_with('/') && !it.starts_with("/docs/") && !it.contains('*'));
    assert!(routes.len() > 25, "the search finds too little: {routes:?}");
    for route in routes {
        let is_there = [format!(" {route}`"), format!("`{route}`"), format!(" {route}?")];
        assert!(is_there.iter().any(|it| API.contains(it)), "docs/api.md lacks {route}");
    }
}

#[test]
fn every_test_that_the_table_of_designs_names_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = 0;
    for (before, after) in DESIGNS.split("` in `").zip(DESIGNS.split("` in `").skip(1)) {
        let test = before.rsplit('`').next().unwrap();
        let path = after.split('`').next().unwrap();
        let source = std::fs::read_to_string(crates.join(path));
        let source = source.unwrap_or_else(|error| panic!("docs/designs.md names {path}: {error}"));
        let is_there = source.contains(&format!("fn {test}("));
        assert!(is_there, "docs/designs.md names {test}, which is not in {path}");
        found += 1;
    }
    assert!(found > 30, "the search finds too little: {found}");
    for row in DESIGNS.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")) {
        let is_head = row.starts_with("| what it is called");
        assert!(is_head || row.contains("` in `"), "a row without a test: {row}");
    }
}

/// Code, status, meaning and remedy of every error code, as the sources have them.
fn entries() -> Vec<[String; 4]> {
    let table = CODES.split("pub(super) const CODES").nth(1).unwrap();
    let table = table.split("const fn entry").next().unwrap();
    let entry = |text: &str| {
        let parts: Vec<&str> = text.split('"').collect();
        let status = parts[2].trim_matches([',', ' ', '\n']).to_owned();
        // A backslash at the end of a line joins it with the next.
        let joined = |text: &str| text.split("\\\n").map(str::trim_start).collect::<String>();
        [parts[1].to_owned(), status, joined(parts[3]), joined(parts[5])]
    };
    table.split("entry(").skip(1).map(entry).collect()
}

/// What stands between two of these marks.
fn quoted(text: &str, mark: char) -> Vec<String> {
    text.split(mark).skip(1).step_by(2).map(str::to_owned).collect()
}

/// `InvalidArgument, …` as `INVALID_ARGUMENT`.
fn screaming(text: &str) -> String {
    let name: String = text.chars().take_while(char::is_ascii_alphanumeric).collect();
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_uppercase());
    }
    word
}
