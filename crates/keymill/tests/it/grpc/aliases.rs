//! Aliases, digests and what is known of keys.

use keymill_proto::v1::{self, KeyState, Kind};
use tonic::Code;

use super::{Instance, client, ensure, is_problem, of_kind, take};

#[tokio::test]
async fn an_alias_is_added_shown_listed_and_removed() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    let space = || "default".to_owned();
    let add = |alias: &str, owner: &str| v1::AddAliasRequest {
        space: space(),
        alias: alias.to_owned(),
        owner: owner.to_owned(),
    };
    let added = client.add_alias(add("sale", "shop")).await.unwrap().into_inner();
    assert_eq!((added.alias.as_str(), added.owner.as_str(), added.made), ("sale", "shop", true));
    assert!(!client.add_alias(add("sale", "shop")).await.unwrap().into_inner().made);
    is_problem(client.add_alias(add("sale", "other")).await, Code::AlreadyExists, "taken", "sale");
    is_problem(client.add_alias(add("a b", "")).await, Code::InvalidArgument, "bad_alias", "");
    for alias in ["apple", "beer", "cake"] {
        client.add_alias(add(alias, "")).await.unwrap();
    }
    let shown = v1::GetAliasRequest { space: space(), alias: "sale".to_owned() };
    let shown = client.get_alias(shown).await.unwrap().into_inner();
    assert!(shown.owner == "shop" && shown.created_at.unwrap().seconds > 1_700_000_000);
    let unknown = v1::GetAliasRequest { space: space(), alias: "none".to_owned() };
    is_problem(client.get_alias(unknown).await, Code::NotFound, "unknown_alias", "none");
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let ask = v1::ListAliasesRequest { space: space(), after, limit: Some(2) };
        let page = client.list_aliases(ask).await.unwrap().into_inner();
        all.extend(page.aliases.into_iter().map(|alias| alias.alias));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(all, ["apple", "beer", "cake", "sale"]);
    let ask = v1::ListAliasesRequest { space: space(), after: String::new(), limit: Some(0) };
    is_problem(client.list_aliases(ask).await, Code::InvalidArgument, "bad_parameter", "limit");
    let remove = |owner: &str| v1::RemoveAliasRequest {
        space: space(),
        alias: "sale".to_owned(),
        owner: owner.to_owned(),
    };
    is_problem(client.remove_alias(remove("other")).await, Code::AlreadyExists, "taken", "");
    client.remove_alias(remove("shop")).await.unwrap();
    is_problem(client.remove_alias(remove("shop")).await, Code::NotFound, "unknown_alias", "");
}

#[tokio::test]
async fn the_same_input_has_the_same_key() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    ensure(&mut client, "urls", of_kind(Kind::Digest)).await;
    let ask = |inputs: Vec<String>, scope: &str| v1::DigestRequest {
        space: "urls".to_owned(),
        inputs,
        scope: scope.to_owned(),
    };
    let inputs = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let first = client.digest(ask(inputs(&["a", "b", "a"]), "")).await.unwrap().into_inner();
    assert_eq!(first.keys.len(), 3);
    assert_eq!(first.keys[0].key, first.keys[2].key);
    assert!(first.keys[0].made && first.keys[0].tries.is_some());
    let again = client.digest(ask(inputs(&["b"]), "")).await.unwrap().into_inner();
    assert_eq!(again.keys[0].key, first.keys[1].key);
    assert!(!again.keys[0].made && again.keys[0].tries.is_none());
    let other = client.digest(ask(inputs(&["b"]), "shop")).await.unwrap().into_inner();
    assert_ne!(other.keys[0].key, first.keys[1].key);
    // More than one small answer holds.
    let many: Vec<String> = (0..200).map(|number| format!("input {number}")).collect();
    let many = client.digest(ask(many, "")).await.unwrap().into_inner();
    assert_eq!(many.keys.len(), 200);
    let bad = [
        (ask(Vec::new(), ""), "bad_count", "inputs"),
        (ask(inputs(&["a", ""]), ""), "bad_input", "inputs[1]"),
    ];
    for (ask, why, says) in bad {
        is_problem(client.digest(ask).await, Code::InvalidArgument, why, says);
    }
    let wrong = v1::DigestRequest { space: "default".to_owned(), ..ask(inputs(&["a"]), "") };
    is_problem(client.digest(wrong).await, Code::FailedPrecondition, "wrong_kind", "");
}

#[tokio::test]
async fn a_key_is_explained_and_retired() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    let explain = |space: &str, key: &str| v1::ExplainRequest {
        space: space.to_owned(),
        key: key.to_owned(),
    };
    let key = take(&mut client, "default", 1).await.unwrap().remove(0);
    let found = client.explain(explain("default", &key)).await.unwrap().into_inner();
    assert_eq!((found.key.as_str(), found.state()), (key.as_str(), KeyState::Leased));
    let lease = found.lease.unwrap();
    assert_eq!(lease.purpose(), v1::LeasePurpose::Lease);
    assert!((lease.start..lease.end).contains(&found.ordinal.unwrap()));
    assert_eq!(lease.holder.unwrap().id, instance.service.instance().id);
    assert!(found.number.unwrap().parse::<u128>().is_ok());
    let found = client.explain(explain("default", "!")).await.unwrap().into_inner();
    assert_eq!((found.state(), found.key.as_str()), (KeyState::Invalid, "!"));
    let nowhere = client.explain(explain("nowhere", &key)).await;
    is_problem(nowhere, Code::NotFound, "unknown_space", "nowhere");

    let noted = v1::SpaceSettings { audit: Some(v1::Audit::Key.into()), ..Default::default() };
    ensure(&mut client, "noted", noted).await;
    let key = take(&mut client, "noted", 1).await.unwrap().remove(0);
    let retire = |key: &str| v1::RetireRequest { space: "noted".to_owned(), key: key.to_owned() };
    let retired = client.retire(retire(&key)).await.unwrap().into_inner();
    assert!(retired.key == key && retired.retired_at.is_some() && retired.used_at.is_some());
    let found = client.explain(explain("noted", &key)).await.unwrap().into_inner();
    assert_eq!((found.state(), found.used.unwrap().key), (KeyState::Retired, key));
    let unused = client.retire(retire("0000000")).await;
    is_problem(unused, Code::FailedPrecondition, "not_retirable", "");

    ensure(&mut client, "ids", of_kind(Kind::Snowflake)).await;
    let id = take(&mut client, "ids", 1).await.unwrap().remove(0);
    let found = client.explain(explain("ids", &id)).await.unwrap().into_inner();
    assert!(found.time.is_some() && found.worker.is_some() && found.sequence.is_some());
}
