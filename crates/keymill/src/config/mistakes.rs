//! Mistakes in settings, in plain words: what is wrong, in which line, and what was probably meant.
//!
//! `settings` calls it with the parser's error. A line is never quoted, because it may hold a password.

use keymill_engine::space::LENGTH_MAX;

use super::limits::{CONNECTIONS_MAX, COUNT_MAX, Max};
use super::variables::{VARIABLES, path};
use crate::access::secret_text::PREFIX;

/// What is wrong with a settings file.
pub(super) fn in_file(text: &str, error: &toml::de::Error) -> String {
    let Some(span) = error.span() else {
        return in_words("it", error.message());
    };
    let before = text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
    let line = text.lines().nth(before).unwrap_or_default();
    let key = line.split_once('=').map_or("it", |(key, _)| key.trim());
    format!("line {}: {}", before + 1, in_words(key, error.message()))
}

/// What is wrong with the value of a variable that has the right type.
pub(super) fn in_variable(variable: &str, text: &str, message: &str) -> String {
    match message.split_once(", expected ") {
        Some((found, _)) if found.starts_with("invalid value: integer") => {
            format!("{variable} is too large: `{text}`")
        }
        Some((_, expected)) => format!("{variable} must be {expected}, not `{text}`"),
        None => format!("{variable}: {message}"),
    }
}

/// The closest of the names, if one is close.
pub(crate) fn closest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let closeness = |name: &str| strsim::normalized_damerau_levenshtein(unknown, name);
    let close = known.map(|name| (closeness(name), name)).filter(|(closeness, _)| *closeness > 0.6);
    close.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, name)| name)
}

fn in_words(key: &str, message: &str) -> String {
    if let Some(rest) = message.strip_prefix("unknown field `") {
        return unknown_setting(rest);
    }
    let Some((found, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    let Some((_, found)) = ["invalid type: ", "invalid value: ", "unknown variant "]
        .iter()
        .find_map(|kind| found.split_once(kind))
    else {
        return message.to_owned();
    };
    // The parser names the type as well: integer `3`, string "x".
    let found = match found.find(['`', '"']) {
        Some(value) => format!("`{}`", found[value..].trim_matches(['`', '"'])),
        None => match found {
            "map" => "a section".to_owned(),
            "sequence" => "a list".to_owned(),
            found => found.to_owned(),
        },
    };
    let from_one = |max: Max| format!("a whole number from 1 to {}", max.text);
    let (count, connections) = (from_one(COUNT_MAX), from_one(CONNECTIONS_MAX));
    let length = format!("a whole number from 0 to {LENGTH_MAX}");
    let expected = match expected {
        "u8" if key == "length" => length.as_str(),
        "u32" if key == "count_max" => count.as_str(),
        "u32" if key.starts_with("connections_") => connections.as_str(),
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "f64" => "a number",
        "a string" | "path string" => "text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a section in brackets",
        section if section.starts_with("struct ") => "a section in brackets",
        expected => expected,
    };
    if found.contains(PREFIX) {
        // A token belongs into no message, wherever it was written.
        return format!(
            "{key} must be {expected}, and the settings hold the SHA-256 of a token, not its text"
        );
    }
    format!("{key} must be {expected}, not {found}")
}

/// The message names the unknown field first and then every field it knows, each in backticks.
fn unknown_setting(rest: &str) -> String {
    let (unknown, rest) = rest.split_once('`').unwrap_or((rest, ""));
    let known = rest.split('`').skip(1).step_by(2);
    if let Some(known) = closest(unknown, known) {
        return format!("unknown setting `{unknown}`; did you mean `{known}`?");
    }
    // It may be in the wrong section.
    let elsewhere = VARIABLES.iter().find(|(_, name, _)| *name == unknown);
    match elsewhere {
        Some(("", name, _)) => format!(
            "unknown setting `{unknown}` in this section; write `{name}` above the first section"
        ),
        Some((section, name, _)) => format!(
            "unknown setting `{unknown}` here; did you mean `{}`, in the section [{section}]?",
            path(section, name)
        ),
        None => format!(
            "unknown setting `{unknown}`; `keymill config show --default` prints all settings"
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Settings;

    #[test]
    fn a_mistake_is_named_with_its_line_and_what_was_meant() {
        for (text, says) in [
            ("lisen = \"x\"", "line 1: unknown setting `lisen`; did you mean `listen`?"),
            (
                "\n[limits]\ncoutn_max = 4",
                "line 3: unknown setting `coutn_max`; did you mean `count_max`?",
            ),
            ("[spaces.a]\nlenght = 7", "line 2: unknown setting `lenght`; did you mean `length`?"),
            (
                "count_max = 7",
                "line 1: unknown setting `count_max` here; did you mean `limits.count_max`, in the \
                 section [limits]?",
            ),
            (
                "[log]\nlisten = \"x\"",
                "line 2: unknown setting `listen` in this section; write `listen` above the first \
                 section",
            ),
            (
                "[limits]\ncount_max = \"abc\"",
                "line 2: count_max must be a whole number from 1 to 10,000,000, not `abc`",
            ),
            (
                "[limits]\nconnections_max = -1",
                "line 2: connections_max must be a whole number from 1 to 1,000,000, not `-1`",
            ),
            (
                "[spaces.a]\nlength = 300",
                "line 2: length must be a whole number from 0 to 20, not `300`",
            ),
            ("[limits]\nwait_seconds = \"x\"", "line 2: wait_seconds must be a number, not `x`"),
            (
                "[tokens]\nshop = \"km_secret\"",
                "line 2: shop must be a section in brackets, and the settings hold the SHA-256 of a token, not \
                 its text",
            ),
            ("new_store = 3", "line 1: new_store must be true or false, not `3`"),
            ("limits = 3", "line 1: limits must be a section in brackets, not `3`"),
            ("[log]\nformat = \"x\"", "line 2: format must be `text` or `json`, not `x`"),
        ] {
            let error = Settings::parse(text).unwrap_err().to_string();
            assert_eq!(error, says, "{text}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_not_quoted() {
        let error = Settings::parse("\nstore = postgres://me:password@host").unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("line 2: ") && !error.contains("password"), "{error}");
    }
}
