//! JSON bodies of requests, and the errors for those that are wrong.
//!
//! Every handler that takes a JSON object reads it here. An array is refused although serde would
//! read one, and so is an unknown field. An error names the field and what it must be, instead of
//! repeating the JSON library, which is written for programmers.

use axum::http::HeaderMap;
use bytes::Bytes;
use hyper::header;
use keymill_engine::space::LENGTH_MAX;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Problem;

/// The longest value that a refusal repeats.
const SHOWN_MAX: usize = 40;

/// A body that the description leaves out, because there should be none.
pub(super) type Undescribed = Bytes;

/// Refuses a body where none is expected, because it would be ignored. `instead` says what to do.
pub(super) fn no_body(body: &[u8], instead: &str) -> Result<(), Problem> {
    if body.is_empty() {
        return Ok(());
    }
    Err(Problem::bad_body(format!("this request takes no body; {instead}")))
}

/// Reads a JSON object, whatever the content type of the body: if it were ignored, a keyspace could be
/// created with the defaults, which is permanent. No body at all is an empty object.
pub(super) fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let text: &[u8] = if body.is_empty() { b"{}" } else { body };
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::bad_body("the body must be a JSON object: {…}".to_owned()));
    }
    serde_json::from_slice(text).or_else(|error| {
        let has_fraction = error.to_string().contains("floating point");
        let read = if has_fraction { with_whole_numbers(text) } else { None };
        read.ok_or_else(|| Problem::bad_body(in_words::<T>(text, &error)))
    })
}

/// A whole number, which may be written as `3.0`: JSON knows no difference, and languages that have but one
/// type of number write it so.
pub(super) fn whole(value: &Value) -> Option<u64> {
    let fractional = || value.as_f64().filter(|number| number.fract() == 0.0);
    value.as_u64().or_else(|| format!("{:.0}", fractional()?).parse().ok())
}

/// Reads an object in which whole numbers are written like that.
fn with_whole_numbers<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    let mut fields: Map<String, Value> = serde_json::from_slice(text).ok()?;
    for value in fields.values_mut().filter(|value| value.is_f64()) {
        if let Some(whole) = whole(value) {
            *value = whole.into();
        }
    }
    serde_json::from_value(Value::Object(fields)).ok()
}

/// Refuses a body that is not labelled as JSON.
pub(super) fn check_label(headers: &HeaderMap) -> Result<(), Problem> {
    check_label_is("application/json", headers)
}

/// Refuses a body that is not labelled as this.
pub(super) fn check_label_is(wanted: &str, headers: &HeaderMap) -> Result<(), Problem> {
    let label = headers.get(header::CONTENT_TYPE).and_then(|label| label.to_str().ok());
    let label = label.unwrap_or_default();
    let kind = label.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    Err(Problem::unsupported_media_type(wanted, kind))
}

/// What is wrong with a body that could not be read as a `T`.
fn in_words<T: DeserializeOwned>(text: &[u8], error: &serde_json::Error) -> String {
    // serde reports a number in place of a word like broken JSON, so broken JSON is checked for first.
    let fields = match serde_json::from_slice::<Map<String, Value>>(text) {
        Ok(fields) => fields,
        Err(broken) => return not_json(&broken),
    };
    // serde does not name the field, so each is tried alone.
    for (name, value) in fields {
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        let Err(error) = serde_json::from_value::<T>(alone) else { continue };
        let error = error.to_string();
        if error.starts_with("unknown field") {
            return error.replacen(", expected", "; expected", 1);
        }
        if !error.starts_with("missing field") {
            return field_in_words(&name, &value, &error, words_of::<T>(&name).as_deref());
        }
    }
    format!("the body is not as expected: {error}")
}

/// What is wrong with a body that is not JSON, and where.
fn not_json(error: &serde_json::Error) -> String {
    let told = error.to_string();
    let problem = match told.rsplit_once(" at line ").map_or(told.as_str(), |(told, _)| told) {
        _ if error.is_eof() => "it ends too early",
        "expected value" | "expected ident" => "a value is missing or misspelt",
        "expected `:`" => "there is no colon between a name and its value",
        "expected `,` or `}`" | "expected `,` or `]`" => "there is no comma between two entries",
        "key must be a string" => "a name is not in double quotes",
        "trailing comma" => "there is a comma after the last entry",
        "trailing characters" => "there is more text after the object",
        other => other,
    };
    let (line, column) = (error.line(), error.column());
    format!("the body is not valid JSON: {problem}, at line {line}, column {column}")
}

/// The words that a field can have, where they are few.
fn words_of<T: DeserializeOwned>(name: &str) -> Option<String> {
    // It is none of them, so the error lists them all.
    let other = Value::String("?".to_owned());
    let alone = Value::Object(Map::from_iter([(name.to_owned(), other)]));
    let error = serde_json::from_value::<T>(alone).err()?.to_string();
    error.strip_prefix("unknown variant `?`, expected ").map(str::to_owned)
}

/// What a field must be, from an error such as ``invalid value: integer `300`, expected u8``.
fn field_in_words(name: &str, value: &Value, error: &str, words: Option<&str>) -> String {
    let length = format!("a whole number from 0 to {LENGTH_MAX}");
    let expected = error.rsplit_once("expected ").map_or(error, |(_, expected)| expected);
    let expected = words.unwrap_or(match expected {
        // The only time in a body.
        _ if name == "epoch" => "a time such as 2026-11-16T00:00:00Z",
        "u8" if name == "length" => length.as_str(),
        "u8" if name == "uuid_version" => "4 or 7",
        "u8" => "a whole number from 0 to 255",
        "u32" | "u64" => "a whole number",
        "a boolean" => "true or false",
        // The only list in a body.
        _ if name == "inputs" => "a list of strings",
        other => other,
    });
    let mut shown = value.to_string();
    if shown.chars().count() > SHOWN_MAX {
        shown = shown.chars().take(SHOWN_MAX).chain(['…']).collect();
    }
    format!("`{name}` must be {expected}, not {shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_may_be_written_with_a_fraction_of_nothing() {
        #[derive(serde::Deserialize)]
        struct Counted {
            count: u32,
        }
        let read = |text: &str| object::<Counted>(text.as_bytes()).map(|it| it.count).ok();
        assert_eq!((read(r#"{"count": 3.0}"#), read(r#"{"count": 3e2}"#)), (Some(3), Some(300)));
        assert_eq!((read(r#"{"count": 3.5}"#), read(r#"{"count": -3.0}"#)), (None, None));
        assert_eq!(read(r#"{"count": 5e9}"#), None);
        assert_eq!(read(r#"{"count": 3, "count": 4}"#), None);
    }
    use keymill_engine::space::SpaceSpec;

    #[test]
    fn a_refusal_names_the_field_and_what_it_must_be() {
        for (body, says) in [
            (r#"{"length": "x"}"#, "`length` must be a whole number from 0 to 20, not \"x\""),
            (
                r#"{"check": true, "length": 300}"#,
                "`length` must be a whole number from 0 to 20, not 300",
            ),
            (r#"{"start": 1.5}"#, "`start` must be a whole number, not 1.5"),
            (r#"{"check": 1}"#, "`check` must be true or false, not 1"),
            (r#"{"audit": "x"}"#, "`audit` must be `batch` or `key`, not \"x\""),
            (r#"{"epoch": "x"}"#, "`epoch` must be a time such as 2026-11-16T00:00:00Z, not \"x\""),
            (r#"{"lenght": 7}"#, "unknown field `lenght`; expected one of"),
            (r#"{"length": 7, "length": 8}"#, "duplicate field `length`"),
            (r#"{"group": 300}"#, "`group` must be a whole number from 0 to 255, not 300"),
            (r#"{"uuid_version": "x"}"#, "`uuid_version` must be 4 or 7, not \"x\""),
            (r#"{"kind": 1}"#, "`kind` must be one of `shuffled`, `sequential`, `pooled`"),
            (r#"{"kind": {"shuffled": 1}}"#, "`kind` must be one of `shuffled`, `sequential`"),
            (r#"{"audit": 1}"#, "`audit` must be `batch` or `key`, not 1"),
            (r#"{"length": }"#, "JSON: a value is missing or misspelt, at line 1, column 12"),
            (r#"{"length" 7}"#, "JSON: there is no colon between a name and its value, at line 1"),
            (r#"{"length": 7"#, "the body is not valid JSON: it ends too early, at line 1"),
            (r#"{"length": 7,}"#, "not valid JSON: there is a comma after the last entry, at"),
            (r#"{length: 7}"#, "not valid JSON: a name is not in double quotes, at"),
            (r#"{"length": 7} 8"#, "not valid JSON: there is more text after the object, at"),
            ("[7]", "must be a JSON object"),
        ] {
            let problem = object::<SpaceSpec>(body.as_bytes()).unwrap_err();
            let detail = serde_json::to_value(&problem).unwrap()["detail"].to_string();
            let says = serde_json::to_string(says).unwrap();
            assert!(detail.contains(says.trim_matches('"')), "{detail} does not say {says}");
        }
        assert_eq!(object::<SpaceSpec>(b"").unwrap(), SpaceSpec::default());
    }
}
