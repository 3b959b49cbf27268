//! The description of the HTTP interface, held against what is answered.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Value, json};

use super::Instance;

#[tokio::test]
async fn the_description_is_one_that_clients_can_be_generated_from() {
    let api = Instance::start().await.call("GET", "/openapi.json").await.json();
    let mut ids = HashSet::new();
    for (path, method, operation) in operations(&api) {
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id.to_owned()), "`{id}` is there twice");
        let is_snake = id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(is_snake && id.contains('_'), "`{id}` names no function well");
        assert!(operation["summary"].is_string(), "{method} {path} has no summary");
        for (status, answer) in operation["responses"].as_object().unwrap() {
            let said = answer["description"].as_str().unwrap_or_default();
            assert!(!said.is_empty(), "{id} {status} has no description");
            if status.as_str() < "400" || path == "/readyz" {
                continue;
            }
            let kinds: Vec<&String> = answer["content"].as_object().unwrap().keys().collect();
            assert_eq!(kinds, ["application/problem+json"], "{id} {status}");
            let has_header = answer["headers"]["Retry-After"].is_object();
            assert_eq!(has_header, ["429", "503"].contains(&status.as_str()), "{id} {status}");
        }
    }
    assert_eq!(ids.len(), 41, "{ids:?}");
    check_references(&api, &api);
    let problem = &api["components"]["schemas"]["Problem"];
    for field in ["code", "status", "title", "detail", "held_elsewhere", "differences"] {
        assert!(problem["properties"][field].is_object(), "a problem has `{field}`");
    }
}

#[tokio::test]
async fn keyspaces_of_every_kind_are_answered_as_described() {
    let instance = Instance::start().await;
    let api = instance.call("GET", "/openapi.json").await.json();
    for kind in ["shuffled", "sequential", "pooled", "digest", "snowflake", "uuid"] {
        let made = instance.put(kind, &json!({"kind": kind})).await;
        assert_eq!(made.status, 201, "{}", made.body);
        conforms(&api, &schema("SpaceView"), &made.json()).unwrap();
        if !["digest", "pooled"].contains(&kind) {
            let taken = instance.call("POST", &format!("/v1/spaces/{kind}/keys?count=2")).await;
            conforms(&api, &schema("Keys"), &taken.json()).unwrap();
            let key = taken.json()["keys"][0].as_str().unwrap().to_owned();
            let known = instance.call("GET", &format!("/v1/spaces/{kind}/keys/{key}")).await;
            conforms(&api, &schema("ExplanationView"), &known.json()).unwrap();
        }
    }
    instance.put("ids", &json!({"kind": "snowflake", "layout": "javascript"})).await;
    let numbers = instance.call("POST", "/v1/spaces/ids/keys?numbers=true").await.json();
    assert!(numbers["keys"][0].is_u64(), "{numbers}");
    conforms(&api, &schema("Keys"), &numbers).unwrap();
    instance.service.announce("here".to_owned());
    instance.call("PUT", "/v1/spaces/default/aliases/a").await;
    for (path, name) in [
        ("/v1/spaces", "Spaces"),
        ("/v1/leases", "Leases"),
        ("/v1/instances", "Instances"),
        ("/v1/spaces/default/aliases", "Aliases"),
        ("/v1/spaces/default/aliases/a", "AliasRecordView"),
        ("/v1/spaces/pooled/used", "UsedKeys"),
        ("/v1/spaces/pooled/pool", "AvailableKeys"),
        ("/v1/spaces/uuid/bounds?from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z", "BoundsView"),
        ("/v1/store", "StoreView"),
        ("/v1/session", "SessionView"),
        ("/v1/activity", "Activity"),
        ("/readyz", "Health"),
        ("/v1/spaces/nope", "Problem"),
    ] {
        let answer = instance.call("GET", path).await.json();
        conforms(&api, &schema(name), &answer).unwrap_or_else(|why| panic!("{path}: {why}"));
    }
    for (path, name) in [
        ("/v1/spaces/default/advance?to=500000", "AdvanceView"),
        ("/v1/spaces/default/used-keys", "ImportView"),
    ] {
        let answer = instance.call("POST", path).await.json();
        conforms(&api, &schema(name), &answer).unwrap_or_else(|why| panic!("{path}: {why}"));
    }
    let filled = instance.send("POST", "/v1/spaces/pooled/pool/fill", "", r#"{"count":1}"#).await;
    conforms(&api, &schema("FillView"), &filled.json()).unwrap();
    let other = instance.put("uuid", &json!({"kind": "shuffled"})).await;
    other.is_problem(409, "different_definition", "kind");
    conforms(&api, &schema("Problem"), &other.json()).unwrap();
}

#[tokio::test]
async fn settings_are_accepted_up_to_their_described_bounds_and_not_beyond() {
    let instance = Instance::start().await;
    let api = instance.call("GET", "/openapi.json").await.json();
    let spec = &api["components"]["schemas"]["SpaceSpec"]["properties"];
    let bound = |name: &str, which: &str| spec[name][which].as_u64().unwrap();
    let status = async |body: Value| instance.put("tuned", &body).await.status;
    assert_eq!(status(json!({})).await, 201);
    for name in ["horizon_seconds", "low_water", "ttl_seconds", "reserve_seconds", "window_seconds"]
    {
        let (min, max) = (bound(name, "minimum"), bound(name, "maximum"));
        for inside in [min, max] {
            assert_eq!(status(json!({name: inside})).await, 200, "{name} {inside}");
        }
        assert_eq!(status(json!({name: max + 1})).await, 400, "{name} above {max}");
        if min > 0 {
            assert_eq!(status(json!({name: min - 1})).await, 400, "{name} below {min}");
        }
    }
    let max = bound("lease_size_max", "maximum");
    assert_eq!(status(json!({"lease_size_min": 1, "lease_size_max": max})).await, 200);
    assert_eq!(status(json!({"lease_size_max": max + 1})).await, 400);
    assert_eq!(status(json!({"lease_size_min": 0})).await, 400);
    let length = bound("length", "maximum");
    assert_eq!(instance.put("long", &json!({"length": length})).await.status, 201);
    assert_eq!(instance.put("longer", &json!({"length": length + 1})).await.status, 400);
    let limit = parameter(&api, "/v1/leases", "get", "limit")["maximum"].as_u64().unwrap();
    let leases = async |limit| instance.call("GET", &format!("/v1/leases?limit={limit}")).await;
    assert_eq!((leases(limit).await.status, leases(limit + 1).await.status), (200, 400));
    let count = parameter(&api, "/v1/spaces/{space}/keys", "post", "count");
    let path = |count: u64| format!("/v1/spaces/default/keys?count={count}");
    let beyond = count["maximum"].as_u64().unwrap() + 1;
    assert_eq!((&count["minimum"], beyond), (&json!(1), 100_001));
    instance.call("POST", &path(beyond)).await.is_problem(400, "bad_count", "100000");
}

#[tokio::test]
async fn statuses_that_are_answered_are_described() {
    let instance = Instance::start().await;
    let api = instance.call("GET", "/openapi.json").await.json();
    let large = "x".repeat(5_000);
    for (method, template, path, body, status) in [
        ("post", "/v1/spaces/{space}/keys", "/v1/spaces/default/keys", "", 200),
        ("post", "/v1/spaces/{space}/keys", "/v1/spaces/default/keys?count=0", "", 400),
        ("post", "/v1/spaces/{space}/keys", "/v1/spaces/nope/keys", "", 404),
        ("post", "/v1/spaces/{space}/keys", "/v1/spaces/default/keys", large.as_str(), 413),
        ("post", "/v1/spaces/{space}/keys", "/v1/spaces/default/keys", "count=3", 415),
        ("get", "/v1/leases", "/v1/leases?space=nope", "", 404),
        ("get", "/v1/spaces/{space}/keys/{key}", "/v1/spaces/default/keys/%zz", "", 400),
        ("get", "/v1/spaces/{space}", "/v1/spaces/nope", "", 404),
        ("put", "/v1/spaces/{space}", "/v1/spaces/big", large.as_str(), 413),
        ("put", "/v1/spaces/{space}", "/v1/spaces/bad", "[]", 400),
        ("delete", "/v1/spaces/{space}/aliases/{alias}", "/v1/spaces/default/aliases/a", "[]", 400),
        ("post", "/v1/spaces/{space}/digests", "/v1/spaces/default/digests", "{}", 400),
        ("post", "/v1/spaces/{space}/pool", "/v1/spaces/default/pool", "", 409),
        ("delete", "/v1/spaces/{space}/keys/{key}", "/v1/spaces/default/keys/0000000", "", 409),
        ("patch", "/v1/spaces/{space}", "/v1/spaces/default", r#"{"low_water":1}"#, 409),
        ("post", "/v1/spaces/{space}/grow", "/v1/spaces/default/grow", r#"{"length":5}"#, 400),
        ("post", "/v1/spaces/{space}/seal", "/v1/spaces/default/seal", "", 400),
        ("post", "/v1/spaces/{space}/advance", "/v1/spaces/default/advance", "", 409),
        ("post", "/v1/spaces/{space}/export", "/v1/spaces/default/export", r#"{"for":"x"}"#, 400),
        ("post", "/v1/spaces/{space}/pool/fill", "/v1/spaces/default/pool/fill", "{}", 409),
        ("post", "/v1/spaces/{space}/used-keys", "/v1/spaces/default/used-keys", "a\n", 415),
        ("post", "/v1/import", "/v1/import", "", 400),
        ("get", "/v1/spaces/{space}/bounds", "/v1/spaces/default/bounds", "", 400),
    ] {
        let answer = instance.send(&method.to_uppercase(), path, "", body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        let described = &api["paths"][template][method]["responses"][status.to_string()];
        assert!(described.is_object(), "{method} {template} may answer {status}");
    }
    let required = |path: &str, method: &str| {
        api["paths"][path][method]["requestBody"]["required"].as_bool().unwrap()
    };
    assert!(!required("/v1/spaces/{space}", "put"), "no body asks for the defaults");
    assert!(!required("/v1/spaces/{space}/keys", "post"));
    assert!(required("/v1/spaces/{space}/digests", "post"));
}

#[tokio::test]
async fn every_type_that_a_take_is_answered_with_is_described_and_no_other() {
    let instance = Instance::start().await;
    let api = instance.call("GET", "/openapi.json").await.json();
    instance.put("ids", &json!({"kind": "snowflake", "layout": "javascript"})).await;
    let mut answered = BTreeSet::new();
    // Single takes, those that wait for keys, and large ones are written in three places.
    for (method, template, path) in [
        ("post", "/v1/spaces/{space}/keys", "/v1/spaces/default/keys"),
        ("post", "/v1/spaces/{space}/keys", "/v1/spaces/default/keys?count=3"),
        ("post", "/v1/spaces/{space}/keys", "/v1/spaces/default/keys?count=20000"),
        ("post", "/v1/spaces/{space}/keys", "/v1/spaces/ids/keys?count=3&numbers=true"),
        ("post", "/v1/spaces/{space}/keys", "/v1/spaces/default/keys?count=0"),
        ("post", "/v1/spaces/{space}/keys", "/v1/spaces/nope/keys"),
        ("get", "/get-key", "/get-key"),
        ("get", "/get-key", "/get-key?space=default"),
        ("get", "/get-key", "/get-key?space=nope"),
    ] {
        for accept in ["*/*", "application/json", "text/plain", "image/png"] {
            let headers = format!("accept: {accept}\r\n");
            let answer = instance.send(&method.to_uppercase(), path, &headers, "").await;
            let kind = answer.header("content-type").unwrap().split(';').next().unwrap();
            let status = answer.status.to_string();
            let described = &api["paths"][template][method]["responses"][&status]["content"];
            let why = format!("{method} {path} for {accept} is {kind}, not {described}");
            assert!(described[kind].is_object(), "{why}");
            if kind == "text/plain" {
                assert_eq!(described[kind]["schema"]["type"], "string", "{why}");
            } else {
                let schema = &described[kind]["schema"];
                conforms(&api, schema, &answer.json()).unwrap_or_else(|it| panic!("{why}: {it}"));
            }
            if answer.status == 200 {
                answered.insert((template, kind.to_owned()));
            }
        }
    }
    let described = [("post", "/v1/spaces/{space}/keys"), ("get", "/get-key")];
    let described = described.into_iter().flat_map(|(method, template)| {
        let content = &api["paths"][template][method]["responses"]["200"]["content"];
        content.as_object().unwrap().keys().map(move |kind| (template, kind.clone()))
    });
    assert_eq!(answered, described.collect());
}

#[tokio::test]
async fn every_field_is_described() {
    let api = Instance::start().await.call("GET", "/openapi.json").await.json();
    for (name, schema) in api["components"]["schemas"].as_object().unwrap() {
        for (field, about) in schema["properties"].as_object().into_iter().flatten() {
            let mut said = about["oneOf"].as_array().into_iter().flatten().chain([about]);
            let is_said = said.any(|part| {
                let of_type = part["$ref"].as_str().map(|it| &resolve(&api, it)["description"]);
                part["description"].is_string() || of_type.is_some_and(Value::is_string)
            });
            assert!(is_said, "`{field}` of {name} has no description");
        }
    }
    let take = &api["paths"]["/v1/spaces/{space}/keys"]["post"];
    assert!(take["description"].as_str().unwrap().contains("can be repeated"), "{take}");
}

#[tokio::test]
async fn every_code_of_the_documentation_is_described_where_it_is_answered() {
    let instance = Instance::start().await;
    let api = instance.call("GET", "/openapi.json").await.json();
    let page = instance.call("GET", "/docs").await.body;
    let rows: Vec<&str> = page.split("<tr id=\"code-").skip(1).collect();
    assert!(rows.len() > 40, "{rows:?}");
    let text = api.to_string();
    for row in rows {
        let code = row.split('"').next().unwrap();
        let is_elsewhere = row.split("</tr>").next().unwrap().contains("Only over gRPC");
        // Every path that cannot be read has a broken encoding, which is refused first.
        let is_told = text.contains(&format!("`{code}`"));
        assert_eq!(is_told, code != "bad_path" && !is_elsewhere, "`{code}`");
    }
    for (path, method, operation) in operations(&api) {
        for (status, code) in [("400", "`bad_host`"), ("503", "`too_many_connections`")] {
            let answer = &operation["responses"][status];
            let said = answer["description"].as_str().unwrap_or_default();
            assert!(said.contains(code), "{method} {path} {status}: {said}");
            assert!(answer["content"]["application/problem+json"].is_object(), "{method} {path}");
        }
    }
}

/// Path, method and operation of everything described.
fn operations(api: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = api["paths"].as_object().unwrap().iter();
    let all = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    all.collect()
}

fn parameter<'a>(api: &'a Value, path: &str, method: &str, name: &str) -> &'a Value {
    let parameters = api["paths"][path][method]["parameters"].as_array().unwrap();
    &parameters.iter().find(|parameter| parameter["name"] == name).unwrap()["schema"]
}

fn schema(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn resolve<'a>(api: &'a Value, reference: &str) -> &'a Value {
    api.pointer(reference.trim_start_matches('#'))
        .unwrap_or_else(|| panic!("{reference} leads nowhere"))
}

fn check_references(api: &Value, part: &Value) {
    match part {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                resolve(api, reference);
            }
            fields.values().for_each(|field| check_references(api, field));
        }
        Value::Array(items) => items.iter().for_each(|item| check_references(api, item)),
        _ => {}
    }
}

/// Whether a value is as a schema says: types, required and known fields, bounds.
fn conforms(api: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return conforms(api, resolve(api, reference), value);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = choices.iter().filter(|choice| conforms(api, choice, value).is_ok()).count();
        return if fits == 1 { Ok(()) } else { Err(format!("{value} fits {fits} of {schema}")) };
    }
    let types: Vec<&Value> = match &schema["type"] {
        Value::Array(types) => types.iter().collect(),
        one => vec![one],
    };
    let is = |wanted: &str| match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    };
    if !types.iter().any(|wanted| is(wanted.as_str().unwrap_or_default())) {
        return Err(format!("{value} is not of {schema}"));
    }
    if schema["maximum"].as_u64().zip(value.as_u64()).is_some_and(|(max, it)| it > max) {
        return Err(format!("{value} is above {schema}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap_or_default()).is_none() {
            return Err(format!("{value} lacks {name}"));
        }
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let known = &schema["properties"][name];
        if known.is_null() {
            return Err(format!("`{name}` of {value} is not described"));
        }
        conforms(api, known, field)?;
    }
    for item in value.as_array().into_iter().flatten() {
        conforms(api, &schema["items"], item)?;
    }
    Ok(())
}
