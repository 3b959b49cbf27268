//! The table of codes beside the codes that the sources give.

use std::collections::BTreeMap;
use std::path::Path;

use hyper::StatusCode;

use super::*;

#[test]
fn every_code_that_is_given_is_explained_with_its_status_and_no_other() {
    let given = given();
    assert!(given.len() > 30, "the search finds too little: {given:?}");
    for (code, status) in &given {
        let entry = CODES.iter().find(|entry| entry.code == code);
        let entry = entry.unwrap_or_else(|| panic!("`{code}` has no entry in codes.rs"));
        assert_eq!(entry.status, *status, "`{code}`");
    }
    for entry in CODES {
        assert!(given.contains_key(entry.code), "`{}` is never given", entry.code);
    }
}

#[test]
fn a_code_is_explained_once_and_in_sentences() {
    for (at, entry) in CODES.iter().enumerate() {
        assert!(!CODES[..at].iter().any(|other| other.code == entry.code), "{entry:?}");
        assert!(entry.meaning.ends_with('.') && entry.remedy.ends_with('.'), "{entry:?}");
    }
}

/// The codes in the sources of the fronts with their statuses: `bad_request("…"`, and
/// `StatusCode::CONFLICT, "…"`, however the lines are broken.
fn given() -> BTreeMap<String, u16> {
    let front = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/front");
    let mut sources = Vec::new();
    for folder in [&front, &front.join("http"), &front.join("grpc"), &front.join("redis")] {
        let files = std::fs::read_dir(folder).into_iter().flatten();
        sources.extend(files.map(|file| file.unwrap().path()));
    }
    let mut codes = BTreeMap::new();
    for source in sources.iter().filter(|path| path.extension().is_some_and(|it| it == "rs")) {
        let text = std::fs::read_to_string(source).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ").replace("( ", "(");
        check_calls(source, &text);
        for (at, _) in text.match_indices('"') {
            let (before, code) = (&text[..at], &text[at + 1..]);
            let code = code.split('"').next().unwrap_or_default();
            let is_code = |letter: u8| letter.is_ascii_lowercase() || letter == b'_';
            if !code.is_empty()
                && code.bytes().all(is_code)
                && let Some(status) = status_before(before)
            {
                codes.insert(code.to_owned(), status);
            }
        }
    }
    codes
}

/// Refuses a call whose code or status is in a variable, because the search would not find it. Only two may:
/// the body of `bad_request`, and the one behind the `match` that has both for errors of the service.
fn check_calls(source: &Path, text: &str) {
    if source.ends_with("codes.rs") {
        return;
    }
    let passed_on = [
        "Problem::new(StatusCode::BAD_REQUEST, code, detail)",
        "Problem::new(status, code, detail)",
    ];
    for name in ["Problem::new(", "bad_request("] {
        for (at, _) in text.match_indices(name) {
            let call = &text[at..];
            let is_definition = text[..at].ends_with("fn ");
            // No further than the first string, and that in the same call.
            let before = call.split('"').next().unwrap_or_default();
            let is_written_out = !before.contains([')', ';']) && status_before(before).is_some();
            let is_passed_on = passed_on.iter().any(|it| call.starts_with(it));
            if !is_definition && !is_written_out && !is_passed_on {
                let call: String = call.chars().take(80).collect();
                panic!("{}: write status and code out in `{call}…`", source.display());
            }
        }
    }
}

/// The status that the text ends with: 400 with `bad_request(`, 404 with `S::NOT_FOUND, `.
fn status_before(text: &str) -> Option<u16> {
    if text.ends_with("bad_request(") {
        return Some(400);
    }
    let (_, name) = text.strip_suffix(", ")?.rsplit_once("::")?;
    (400..600).find(|code| {
        let status = StatusCode::from_u16(*code).unwrap();
        let reason = status.canonical_reason().unwrap_or_default();
        reason.to_uppercase().replace([' ', '-'], "_") == name
    })
}
