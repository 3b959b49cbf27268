//! `/openapi.json`: the description of the HTTP interface, for programs.
//!
//! Each handler describes itself, and lists only the codes of its errors. What many have in common is
//! added here, once: what an error looks like, which errors any request may get, how lists are paged. The
//! bounds of values are in `bounds`. Some bounds are settings, so it is made again when they have changed.

mod bounds;
mod parts;

use std::sync::{Arc, Mutex};

use axum::extract::State as Shared;
use axum::response::IntoResponse;
use bytes::Bytes;
use hyper::header;
use serde_json::{Value, json};
use utoipa::OpenApi;

use super::preview;
use super::{Problem, State};
use super::{
    activity, advance, aliases, audit, digests, explain, health, imports, key_bounds, moving, pool,
};
use super::{session, space_changes, spaces, store, take, tokens, used};
use bounds::Bounds;

/// The operations whose body is read as it comes.
const STREAMED: [&str; 4] = ["import_keys", "import_used_keys", "advance_space", "import_space"];
/// The operations that cannot do without a body.
const BODY_REQUIRED: [&str; 7] = [
    "create_digests",
    "create_token",
    "create_session",
    "grow_space",
    "fill_pool",
    "export_space",
    "import_space",
];

#[derive(OpenApi)]
#[openapi(
    info(
        title = "keymill",
        description = "Short keys that cannot repeat and cannot be guessed. Any other path is answered with 404 \
                       `not_found`, and any other method with 405 `method_not_allowed`."
    ),
    paths(
        take::post,
        take::get_key,
        explain::explain,
        spaces::list,
        spaces::show,
        spaces::put,
        preview::post,
        space_changes::change,
        space_changes::grow,
        space_changes::seal,
        advance::post,
        moving::export,
        moving::import,
        aliases::list,
        aliases::show,
        aliases::put,
        aliases::delete,
        digests::post,
        imports::into_pool,
        pool::list,
        pool::fill,
        imports::as_used,
        key_bounds::show,
        used::retire,
        used::list,
        audit::leases,
        audit::instances,
        tokens::list,
        tokens::show,
        tokens::create,
        tokens::rotate,
        tokens::revoke,
        tokens::acts,
        session::show,
        session::create,
        session::delete,
        store::show,
        activity::list,
        health::alive,
        health::ready,
        health::metrics,
    ),
    components(schemas(Problem, digests::DigestsView))
)]
struct Description;

/// The description as it was last made, with the bounds that are in it.
#[derive(Debug, Clone, Default)]
pub(super) struct LastDescription(Arc<Mutex<Option<(Bounds, Bytes)>>>);

pub(super) async fn json(Shared(state): Shared<State>) -> impl IntoResponse {
    let count_max = state.service.limits().count_max;
    let bounds = Bounds { count_max, alias_length_max: state.service.alias_length_max() };
    ([(header::CONTENT_TYPE, "application/json")], state.description.text(bounds))
}

impl LastDescription {
    fn text(&self, bounds: Bounds) -> Bytes {
        let mut last = self.0.lock().expect("nothing panics while it is held");
        match &*last {
            Some((known, text)) if *known == bounds => text.clone(),
            _ => {
                let text = Bytes::from(describe(&bounds).to_string());
                *last = Some((bounds, text.clone()));
                text
            }
        }
    }
}

fn describe(bounds: &Bounds) -> Value {
    let mut api =
        serde_json::to_value(Description::openapi()).expect("a description can be written as JSON");
    for (path, operations) in fields(&mut api["paths"]) {
        for (_, operation) in fields(operations) {
            complete(path, operation, bounds);
        }
    }
    bounds.complete_schemas(&mut api["components"]["schemas"]);
    api["components"]["securitySchemes"] = json!({"token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token, once the server has any: `keymill token create`",
    }});
    api
}

/// Adds to an operation what many have in common.
fn complete(path: &str, operation: &mut Value, bounds: &Bounds) {
    let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap_or_default().to_owned();
        if let Some(schema) = bounds.parameter(&id, &name) {
            parameter["schema"] = schema;
        }
    }
    // Checked before anything else.
    refuse(operation, "400", &["bad_host"]);
    if !["/healthz", "/readyz"].contains(&path) {
        refuse(operation, "401", &["unauthorized"]);
        refuse(operation, "403", &["forbidden", "foreign_host"]);
        refuse(operation, "429", &["rate_limited"]);
        refuse(operation, "503", &["tokens_stale"]);
        operation["security"] = json!([{"token": []}, {}]);
    }
    if ["take_keys", "create_digests"].contains(&id.as_str()) {
        refuse(operation, "400", &["above_burst"]);
    }
    if needs_own_origin(&id) {
        refuse(operation, "403", &["foreign_origin"]);
    }
    refuse(operation, "503", &["too_many_connections"]);
    if id.starts_with("list_") || ["get_metrics", "check_readiness"].contains(&id.as_str()) {
        refuse(operation, "503", &["too_many_large_answers"]);
    }
    if operation["responses"]["409"]["description"].to_string().contains("`wrong_secret`") {
        refuse(operation, "409", &["secret_missing"]);
    }
    if path.starts_with("/v1/") || path == "/get-key" {
        refuse(operation, "400", &["bad_encoding", "unknown_parameter"]);
        refuse(operation, "500", &["store_broken"]);
        refuse(operation, "503", &["store_unavailable"]);
    }
    if operation.get("requestBody").is_some() {
        refuse(operation, "400", &["bad_body"]);
        refuse(operation, "408", &["body_too_slow"]);
        refuse(operation, "415", &["unsupported_media_type"]);
        // Imports have no limit: their lines are read as they come.
        if !STREAMED.contains(&id.as_str()) {
            refuse(operation, "413", &["body_too_large"]);
            refuse(operation, "503", &["too_many_large_bodies", "too_many_large_answers"]);
        }
        operation["requestBody"]["required"] = json!(BODY_REQUIRED.contains(&id.as_str()));
    }
    if id == "fill_pool" {
        operation["requestBody"]["content"]["application/json"]["schema"] =
            json!({"oneOf": [reference("FillCount"), reference("FillUpTo")]});
    }
    if id == "create_digests" {
        let one_of = |one: &str, many: &str| json!({"oneOf": [reference(one), reference(many)]});
        operation["requestBody"]["content"]["application/json"]["schema"] =
            one_of("DigestInput", "DigestInputs");
        operation["responses"]["200"]["content"]["application/json"]["schema"] =
            one_of("DigestView", "DigestsView");
    }
    if id.starts_with("list_") {
        operation["responses"]["200"]["headers"] = json!({"Link": {
            "description": "The next page, with `rel=\"next\"`; absent on the last page",
            "schema": {"type": "string"},
        }});
    }
    for (status, answer) in fields(&mut operation["responses"]) {
        if status.as_str() < "400" {
            continue;
        }
        // Readiness also answers 503 with a report of its own.
        answer["content"]["application/problem+json"] = json!({"schema": reference("Problem")});
        if ["429", "503"].contains(&status.as_str()) {
            answer["headers"] = json!({"Retry-After": {
                "description": "After how many seconds to try again",
                "schema": {"type": "integer", "minimum": 1},
            }});
        }
    }
}

/// Whether an operation takes or changes something.
fn needs_own_origin(id: &str) -> bool {
    let reads = ["list_", "get_", "explain_", "check_"].iter().any(|reads| id.starts_with(reads));
    !reads || id == "get_key"
}

/// Adds codes to the errors of an operation.
fn refuse(operation: &mut Value, status: &str, codes: &[&str]) {
    let answer = &mut operation["responses"][status];
    let mut description = answer["description"].as_str().unwrap_or_default().to_owned();
    for code in codes {
        let code = format!("`{code}`");
        if !description.contains(&code) {
            let comma = if description.is_empty() { "" } else { ", " };
            description = format!("{description}{comma}{code}");
        }
    }
    answer["description"] = json!(description);
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// The fields of an object.
fn fields(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_object_mut().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::Timestamp;
    use keymill_engine::instance::Instance;
    use keymill_engine::operations::Verdict;
    use keymill_engine::operations::{Finding, Health, InstanceRecord, Problem, Purpose, State};
    use keymill_engine::space::digest::Normalize;
    use keymill_engine::space::{Audit, Definition, Difference, Kind, Tuning};

    use super::*;

    /// Every variant of an enum as JSON; the compiler knows where one is missing.
    macro_rules! every {
        ($of:ident: $($variant:ident)*) => {{
            let _: fn($of) = |it| match it { $($of::$variant => ()),* };
            json!([$($of::$variant),*])
        }};
    }

    fn schemas() -> Value {
        describe(&Bounds { count_max: 9, alias_length_max: 9 })["components"]["schemas"].take()
    }

    fn names(object: &Value) -> BTreeSet<&str> {
        object.as_object().unwrap().keys().map(String::as_str).collect()
    }

    /// The engine writes these itself, so only this test sees a field that the description lacks.
    #[test]
    fn the_description_has_the_fields_that_the_engine_writes() {
        let (instance, at) = (Instance::this_process(), Timestamp::UNIX_EPOCH);
        let difference = Difference { setting: "s", stored: String::new(), asked: String::new() };
        let problem = Problem { code: "c", space: Some(String::new()), detail: String::new() };
        let record = InstanceRecord {
            instance: instance.clone(),
            address: None,
            seen_at: at,
            stopped_at: None,
        };
        let schemas = schemas();
        for (schema, written) in [
            ("Difference", json!(difference)),
            ("HealthProblem", json!(problem)),
            ("Health", json!(Health { ready: true, problems: vec![problem] })),
            ("Instance", json!(instance)),
            ("InstanceRecord", json!(record)),
            ("Finding", json!(Finding::new("s", "f", "w", true))),
        ] {
            assert_eq!(names(&schemas[schema]["properties"]), names(&written), "{schema}");
        }
    }

    #[test]
    fn the_description_has_every_setting_that_the_engine_writes() {
        let definition = Definition {
            normalize: Normalize::Url,
            layout: Some("41/10/12".to_owned()),
            epoch: Some(Timestamp::UNIX_EPOCH),
            uuid_version: Some(7),
            grown: vec![8],
            ..Definition::default()
        };
        let some = Some(String::new());
        let tuning = Tuning { importing: some.clone(), exported_for: some, ..Tuning::default() };
        let (definition, tuning) = (json!(definition), json!(tuning));
        let written: BTreeSet<&str> = &names(&definition) | &names(&tuning);
        let schemas = schemas();
        let answered = names(&schemas["SpaceView"]["properties"]);
        assert!(answered.is_superset(&written), "{written:?} of {answered:?}");
        // What can be asked for is what is answered later, but for where a keyspace that moves starts.
        let mut asked = names(&schemas["SpaceSpec"]["properties"]);
        assert!(asked.remove("start"));
        let unasked = BTreeSet::from(["grown", "importing", "exported_for"]);
        assert_eq!(asked, &written - &unasked);
        let required = &schemas["SpaceView"]["required"];
        let always: BTreeSet<&str> =
            required.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for name in json!(Definition::default()).as_object().unwrap().keys() {
            assert!(always.contains(name.as_str()), "{name} is always answered");
        }
        for name in ["normalize", "layout", "epoch", "uuid_version", "grown", "importing"] {
            assert!(!always.contains(name), "{name} may be left out");
        }
    }

    #[test]
    fn the_description_has_the_values_that_the_engine_writes() {
        let schemas = schemas();
        for (schema, written) in [
            ("Audit", every!(Audit: Batch Key)),
            ("Kind", every!(Kind: Shuffled Sequential Pooled Digest Snowflake Uuid)),
            ("Normalize", every!(Normalize: None Url UrlDecoded)),
            ("Purpose", every!(Purpose: Lease Advance Fill Window)),
            ("Verdict", every!(Verdict: Safe Warning Unsafe)),
            (
                "State",
                every!(State: Invalid Unissued Leased Issued Skipped Alias Imported Available
                Reserved Retired Unknown),
            ),
        ] {
            assert_eq!(schemas[schema]["enum"], written, "{schema}");
        }
    }
}
