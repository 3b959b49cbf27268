//! The bounds of values: the part of the description that types cannot express.
//!
//! They are those that the server checks, and a test sends values on both sides of them. What a schema
//! cannot express (two settings that contradict each other, reserved words) is left to errors.

use keymill_engine::space::digest::{INPUT_LEN_MAX, SCOPE_LEN_MAX};
use keymill_engine::space::{CAPACITY_MAX, LENGTH_MAX, Tuning};
use serde_json::{Value, json};

use super::{fields, parts};
use crate::front::http::page::{AFTER_LEN_MAX, LIMIT_DEFAULT, LIMIT_MAX};

/// The name of a keyspace.
const SPACE: &str = "^[a-z0-9][a-z0-9_-]{0,63}$";
/// Characters that are safe in a URL.
const UNRESERVED: &str = "^[A-Za-z0-9._~-]*$";
/// No control characters.
const PRINTABLE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";
/// The longest owner or key, in bytes.
const TEXT_LEN_MAX: usize = 255;
/// The longest caller, in bytes.
const CALLER_LEN_MAX: usize = 128;

/// Bounds that the settings decide.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) count_max: u32,
    pub(super) alias_length_max: usize,
}

impl Bounds {
    /// What a parameter of an operation may be.
    pub(super) fn parameter(&self, operation: &str, name: &str) -> Option<Value> {
        Some(match (name, operation) {
            ("space", _) => json!({"type": "string", "pattern": SPACE}),
            // Any text is answered; one that cannot be a key is `invalid`.
            ("key", "explain_key") => json!({"type": "string", "minLength": 1}),
            ("key", _) => text(1, TEXT_LEN_MAX, PRINTABLE),
            ("alias", _) => text(1, self.alias_length_max, UNRESERVED),
            ("owner", _) => text(0, TEXT_LEN_MAX, PRINTABLE),
            ("caller", "list_used_keys") => text(1, CALLER_LEN_MAX, PRINTABLE),
            ("caller", _) => text(0, CALLER_LEN_MAX, PRINTABLE),
            // Without its default, which clients would send even with a body that has another count.
            ("count", _) => json!({"type": "integer", "minimum": 1, "maximum": self.count_max}),
            ("limit", _) => json!({
                "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT,
            }),
            ("to", "advance_space") => {
                json!({"type": "integer", "minimum": 0, "maximum": CAPACITY_MAX})
            }
            ("from" | "to", _) => json!({"type": "string", "format": "date-time"}),
            ("confirm", _) => json!({"type": "string", "pattern": SPACE}),
            ("first_line", _) => json!({"type": "integer", "minimum": 1, "maximum": u32::MAX}),
            ("after", "list_available_keys") => json!({
                "type": "string", "maxLength": AFTER_LEN_MAX, "pattern": "^[0-8]?[0-9]{1,18}/[!-~]+$",
            }),
            ("after", "list_leases") => json!({
                "type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}/[0-8]?[0-9]{1,18}$",
            }),
            ("after", "list_used_keys") => {
                json!({"type": "string", "pattern": "^[0-9]{1,14}-[0-8]?[0-9]{1,18}$"})
            }
            ("after", "list_acts") => {
                json!({"type": "string", "pattern": "^[0-8]?[0-9]{1,18}$"})
            }
            ("after", _) => text(1, AFTER_LEN_MAX, PRINTABLE),
            _ => return None,
        })
    }

    /// Adds bounds to the schemas, and what derives cannot express.
    pub(super) fn complete_schemas(&self, schemas: &mut Value) {
        schemas["DigestInput"] = json!({
            "type": "object",
            "description": "An input to digest.",
            "required": ["input"],
            "properties": {"input": input(), "scope": scope()},
            "additionalProperties": false,
        });
        schemas["DigestInputs"] = json!({
            "type": "object",
            "description": "Several inputs to digest.",
            "required": ["inputs"],
            "properties": {
                "inputs": {
                    "description": "The inputs; their keys are answered in the same order.",
                    "type": "array", "items": input(), "minItems": 1, "maxItems": self.count_max,
                },
                "scope": scope(),
            },
            "additionalProperties": false,
        });
        for (schema, name, min, description) in [
            ("FillCount", "count", 1, "How many keys to add."),
            ("FillUpTo", "up_to", 0, "How many keys should be available in the pool."),
        ] {
            let number = json!({
                "type": "integer", "minimum": min, "maximum": CAPACITY_MAX, "description": description,
            });
            schemas[schema] = json!({
                "type": "object",
                "description": "How far to fill a pool.",
                "required": [name],
                "properties": {name: number},
                "additionalProperties": false,
            });
        }
        let identity = &mut schemas["ExportAsk"]["properties"]["for"];
        (identity["pattern"], identity["maxLength"]) = (json!("^[0-9a-f]{16}$"), json!(16));
        let length = &mut schemas["Growth"]["properties"]["length"];
        (length["minimum"], length["maximum"]) = (json!(1), json!(LENGTH_MAX));
        let keys = &mut schemas["Keys"]["properties"]["keys"];
        keys["items"] = json!({"oneOf": [{"type": "string"}, {"type": "integer"}]});
        keys["description"] = json!("The keys; integers where `numbers` was `true`.");
        schemas["Problem"]["required"] = json!(["code", "status", "title", "detail"]);
        let owner = &mut schemas["Owner"]["properties"]["owner"];
        (owner["maxLength"], owner["pattern"]) = (json!(TEXT_LEN_MAX), json!(PRINTABLE));
        let take = &mut schemas["TakeBody"]["properties"];
        (take["count"]["minimum"], take["count"]["maximum"]) = (json!(1), json!(self.count_max));
        (take["caller"]["maxLength"], take["caller"]["pattern"]) =
            (json!(CALLER_LEN_MAX), json!(PRINTABLE));
        // Before its settings get bounds, which are for those who ask.
        parts::flatten(schemas, "SpaceView");
        parts::flatten(schemas, "InstanceRecord");
        if let Some(schemas) = schemas.as_object_mut() {
            // Only a part of what was flattened.
            schemas.remove("SpaceHistory");
        }
        complete_spec(&mut schemas["SpaceSpec"]["properties"]);
        complete_tuning(&mut schemas["SpaceChange"]["properties"]);
        for (_, schema) in fields(schemas) {
            tidy(schema);
        }
    }
}

fn text(min: usize, max: usize, pattern: &str) -> Value {
    json!({"type": "string", "minLength": min, "maxLength": max, "pattern": pattern})
}

fn input() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": INPUT_LEN_MAX,
        "description": "A URL, or any other text; the length is counted in bytes.",
    })
}

fn scope() -> Value {
    json!({
        "type": "string", "maxLength": SCOPE_LEN_MAX, "default": "",
        "description": "In another scope, the same input has another key.",
    })
}

/// Bounds of the settings of a keyspace.
fn complete_spec(settings: &mut Value) {
    set_bounds(
        settings,
        [
            ("length", 0, u64::from(LENGTH_MAX)),
            ("group", 0, u64::from(u8::MAX)),
            ("step", 1, CAPACITY_MAX),
            ("offset", 0, CAPACITY_MAX),
            ("start", 0, CAPACITY_MAX),
        ],
    );
    complete_tuning(settings);
    settings["uuid_version"] = json!({
        "type": ["integer", "null"], "enum": [4, 7, null],
        "description": settings["uuid_version"]["description"],
    });
    (settings["prefix"]["maxLength"], settings["prefix"]["pattern"]) =
        (json!(16), json!(UNRESERVED));
    (settings["alphabet"]["minLength"], settings["alphabet"]["maxLength"]) = (json!(2), json!(64));
}

/// Bounds of the settings that may change.
fn complete_tuning(settings: &mut Value) {
    let week = 7 * 24 * 3_600;
    let bounds = [
        ("lease_size_min", 1, Tuning::LEASE_SIZE_MAX),
        ("lease_size_max", 1, Tuning::LEASE_SIZE_MAX),
        ("horizon_seconds", 1, week),
        ("low_water", 0, 100_000_000),
        ("ttl_seconds", 0, 31_556_952_000),
        ("reserve_seconds", 5, week),
        ("window_seconds", 1, Tuning::WINDOW_MAX.as_secs()),
    ];
    set_bounds(settings, bounds);
}

fn set_bounds<const N: usize>(settings: &mut Value, bounds: [(&str, u64, u64); N]) {
    for (setting, min, max) in bounds {
        settings[setting]["minimum"] = json!(min);
        settings[setting]["maximum"] = json!(max);
    }
}

/// Removes defaults that are null, and marks the strings that are times.
fn tidy(schema: &mut Value) {
    let Some(properties) = schema.get_mut("properties") else { return };
    for (name, property) in fields(properties) {
        let is_time = name.ends_with("_at") || name == "time" || name == "epoch";
        let Some(property) = property.as_object_mut() else { continue };
        if property.get("default").is_some_and(Value::is_null) {
            property.remove("default");
        }
        if is_time {
            property.insert("format".to_owned(), json!("date-time"));
        }
    }
}
