//! Keyspaces: created, shown and listed, with the same fields as over HTTP.

use std::collections::BTreeSet;

use keymill_proto::v1::{self, Audit, Kind};
use serde_json::Value;
use tonic::Code;
use tonic_types::StatusExt;

use super::{Instance, client, contract, ensure, is_problem, of_kind, reason};

#[tokio::test]
async fn a_keyspace_is_created_once_and_may_be_asked_for_again() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    let settings = v1::SpaceSettings {
        alphabet: Some("base58".to_owned()),
        length: Some(9),
        prefix: Some("ord_".to_owned()),
        check: Some(true),
        ..Default::default()
    };
    let space = ensure(&mut client, "orders", settings.clone()).await;
    let made = space.settings.clone().unwrap();
    assert_eq!((made.kind(), made.length, made.audit()), (Kind::Shuffled, Some(9), Audit::Batch));
    assert!(space.capacity > 1 << 50 && space.next == 0 && space.fingerprint.is_some());
    let ask = |settings| v1::EnsureSpaceRequest { space: "orders".to_owned(), settings };
    // What an answer says can be sent back; what is changeable may change.
    let tuned = v1::SpaceSettings { horizon_seconds: Some(7), ..made };
    let again = client.ensure_space(ask(Some(tuned))).await.unwrap().into_inner();
    assert!(!again.made);
    assert_eq!(again.space.unwrap().settings.unwrap().horizon_seconds, Some(7));
    let other = v1::SpaceSettings { length: Some(10), ..settings };
    let refused = client.ensure_space(ask(Some(other))).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::AlreadyExists, "different_definition")
    );
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["length"], "stored 9, asked 10");
    for (space, settings, says) in [
        ("UPPER", v1::SpaceSettings::default(), ""),
        ("short", v1::SpaceSettings { length: Some(1), ..Default::default() }, "length"),
        ("long", v1::SpaceSettings { length: Some(1_000), ..Default::default() }, "length"),
        ("odd", v1::SpaceSettings { kind: Some(77), ..Default::default() }, "kind"),
    ] {
        let ask = v1::EnsureSpaceRequest { space: space.to_owned(), settings: Some(settings) };
        let refused = client.ensure_space(ask).await;
        is_problem(refused, Code::InvalidArgument, "bad_definition", says);
    }
    // Without settings it has the defaults.
    let ask = v1::EnsureSpaceRequest { space: "plain".to_owned(), settings: None };
    assert!(client.ensure_space(ask).await.unwrap().into_inner().made);
}

#[tokio::test]
async fn a_keyspace_is_shown_as_http_shows_it() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    let fields = fields_of(&["Space", "SpaceSettings"]);
    for (name, settings) in [
        ("links", of_kind(Kind::Shuffled)),
        ("ids", of_kind(Kind::Snowflake)),
        ("uuids", of_kind(Kind::Uuid)),
        ("pool", of_kind(Kind::Pooled)),
        (
            "urls",
            v1::SpaceSettings {
                normalize: Some(v1::Normalize::UrlDecoded.into()),
                ..of_kind(Kind::Digest)
            },
        ),
    ] {
        ensure(&mut client, name, settings).await;
        let ask = v1::GetSpaceRequest { space: name.to_owned() };
        let space = client.get_space(ask).await.unwrap().into_inner();
        let view = instance.call("GET", &format!("/v1/spaces/{name}")).await.json();
        let settings = space.settings.unwrap();
        let number = |field: &str| match &view[field] {
            Value::String(digits) => digits.parse().unwrap(),
            number => number.as_u64().unwrap_or_else(|| panic!("{field}: {view}")),
        };
        assert_eq!(view["name"], space.name);
        assert_eq!(number("capacity"), space.capacity, "{name}");
        assert_eq!(number("next"), space.next, "{name}");
        // That of IDs is counted in time.
        assert!(name == "ids" || number("remaining") == space.remaining, "{name}");
        assert_eq!(view["alphabet"], settings.alphabet.unwrap());
        assert_eq!(number("length"), u64::from(settings.length.unwrap()));
        let kind = v1::Kind::try_from(settings.kind.unwrap()).unwrap().as_str_name();
        assert_eq!(view["kind"], kind.trim_start_matches("KIND_").to_lowercase());
        assert_eq!(view["layout"].as_str(), settings.layout.as_deref(), "{name}");
        assert_eq!(view["epoch"].is_string(), settings.epoch.is_some(), "{name}");
        assert_eq!(view["uuid_version"].as_u64(), settings.uuid_version.map(u64::from));
        assert_eq!(view["available"].is_null(), space.available.is_none(), "{name}");
        assert_eq!(view["fingerprint"].as_str(), space.fingerprint.as_deref(), "{name}");
        assert_eq!(view["runs_out_at"].is_string(), space.runs_out_at.is_some(), "{name}");
        let normalize = settings.normalize.map(|it| v1::Normalize::try_from(it).unwrap());
        assert_eq!(
            view["normalize"] == "url-decoded",
            normalize == Some(v1::Normalize::UrlDecoded)
        );
        for field in view.as_object().unwrap().keys() {
            assert!(fields.contains(field), "`{field}` is missing in the contract");
        }
    }
    let nowhere = v1::GetSpaceRequest { space: "nowhere".to_owned() };
    is_problem(client.get_space(nowhere).await, Code::NotFound, "unknown_space", "nowhere");
}

#[tokio::test]
async fn keyspaces_are_listed_in_pages() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    for name in ["a", "b", "c"] {
        ensure(&mut client, name, of_kind(Kind::Uuid)).await;
    }
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let ask = v1::ListSpacesRequest { after, limit: Some(3) };
        let page = client.list_spaces(ask).await.unwrap().into_inner();
        assert!(page.spaces.len() <= 3);
        names.extend(page.spaces.into_iter().map(|space| space.name));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(names, ["a", "b", "c", "default"]);
    for limit in [0, 1_001] {
        let ask = v1::ListSpacesRequest { limit: Some(limit), ..Default::default() };
        is_problem(client.list_spaces(ask).await, Code::InvalidArgument, "bad_parameter", "limit");
    }
}

/// The names of the fields that messages of the contract have.
fn fields_of(messages: &[&str]) -> BTreeSet<String> {
    let described = contract().message_type;
    let described = described.iter().filter(|message| messages.contains(&message.name()));
    described.flat_map(|message| &message.field).map(|field| field.name().to_owned()).collect()
}
