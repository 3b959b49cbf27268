//! Merges schemas that are composed of parts into one object, as their JSON is: a part that allows no other
//! properties could never be valid next to another.
//!
//! `bounds` calls it. One part of a keyspace are its settings, which are described once, as requests have them.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::fields;

/// The settings of a keyspace, as requests have them.
const SETTINGS: &str = "SpaceSpec";
/// The settings that are not in answers.
const ASKED_ONLY: [&str; 1] = ["start"];
/// The settings that answers leave out if they do not apply.
const LEFT_OUT: [&str; 4] = ["normalize", "layout", "epoch", "uuid_version"];

/// Makes one object of a schema that is composed of others.
pub(super) fn flatten(schemas: &mut Value, name: &str) {
    let parts = schemas[name]["allOf"].take();
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for part in parts.as_array().into_iter().flatten() {
        let part = match part["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            Some(SETTINGS) => Cow::Owned(answered(&schemas[SETTINGS])),
            Some(other) => Cow::Borrowed(&schemas[other]),
            None => Cow::Borrowed(part),
        };
        for (property, schema) in part["properties"].as_object().into_iter().flatten() {
            let names = part["required"].as_array().into_iter().flatten();
            required.extend(names.filter(|name| *name == property).cloned());
            properties.insert(property.clone(), schema.clone());
        }
    }
    schemas[name] = json!({
        "type": "object",
        "description": schemas[name]["description"],
        "required": required,
        "properties": properties,
    });
}

/// The settings of a keyspace as answers have them: present or left out, but never null.
fn answered(asked: &Value) -> Value {
    let mut properties = asked["properties"].clone();
    for (_, schema) in fields(&mut properties) {
        // Either a type that may be null as well, or one of a reference and null.
        if schema["oneOf"][0].is_object() {
            *schema = schema["oneOf"][0].take();
        } else {
            schema["type"] = schema["type"][0].take();
        }
        let description = schema["description"].as_str().unwrap_or_default();
        schema["description"] = json!(format!("{}.", what_it_is(description)));
    }
    if let Some(properties) = properties.as_object_mut() {
        properties.retain(|name, _| !ASKED_ONLY.contains(&name.as_str()));
    }
    let names = fields(&mut properties).map(|(name, _)| name.as_str());
    let required: Vec<String> =
        names.filter(|name| !LEFT_OUT.contains(name)).map(str::to_owned).collect();
    json!({"properties": properties, "required": required})
}

/// The description of a setting without what matters only in requests.
fn what_it_is(description: &str) -> &str {
    let text = description.split("[default:").next().unwrap_or_default().trim_end();
    text.strip_suffix("changeable").unwrap_or(text).trim_end().trim_end_matches(';')
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;

    #[test]
    fn a_schema_of_parts_becomes_one_object() {
        let mut schemas = json!({
            "Part": {"properties": {"a": {"type": "string"}, "d": {}}, "required": ["a"],
                "additionalProperties": false},
            "Whole": {"description": "It.", "allOf": [
                reference("Part"), {"properties": {"b": {}, "c": {}}, "required": ["b"]},
            ]},
        });
        flatten(&mut schemas, "Whole");
        let whole = json!({"type": "object", "description": "It.", "required": ["a", "b"],
            "properties": {"a": {"type": "string"}, "b": {}, "c": {}, "d": {}}});
        assert_eq!(schemas["Whole"], whole);
    }

    #[test]
    fn answers_have_settings_without_what_is_for_those_who_ask() {
        let asked = json!({"additionalProperties": false, "properties": {
            "start": {"type": ["integer", "null"], "description": "The first [default: 0]"},
            "layout": {"type": ["string", "null"], "description": "Its bits, such as 1;2"},
            "audit": {"oneOf": [
                {"$ref": "#/a", "description": "What;\nchangeable\n[default: batch]"}, {"type": "null"},
            ]},
        }});
        let expected = json!({"required": ["audit"], "properties": {
            "layout": {"type": "string", "description": "Its bits, such as 1;2."},
            "audit": {"$ref": "#/a", "description": "What."},
        }});
        assert_eq!(answered(&asked), expected);
    }
}
