//! Who may do what over gRPC: one table of every method and what it needs.
//!
//! A method of the contract without a row fails the first test. The other tests walk the table, as those of HTTP do.

use std::collections::{BTreeMap, BTreeSet};

use keymill::server::{Endpoint, Listeners};
use keymill_proto::v1;
use serde_json::json;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};

use super::{Client, Instance, bearing, client, client_at, contract, is_problem, reason};
use crate::http::guarded::Guarded;
use crate::http::sessions::{cookie_of, sign_in};

use Needs::{All, In};

/// What a method needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// A right in every keyspace.
    All(&'static str),
    /// A right in the keyspace that the message names.
    In(&'static str),
}

/// A method, and what it needs.
type Row = (&'static str, Needs);

const RIGHTS: [&str; 4] = ["take", "name", "read", "admin"];

/// Every method.
const ROWS: &[Row] = &[
    ("Take", In("take")),
    ("TakeStream", In("take")),
    ("Digest", In("name")),
    ("AddAlias", In("name")),
    ("RemoveAlias", In("name")),
    ("GetAlias", In("read")),
    ("ListAliases", In("read")),
    ("Explain", In("read")),
    ("Retire", In("name")),
    ("EnsureSpace", In("admin")),
    ("GetSpace", In("read")),
    ("ListSpaces", All("read")),
];

#[test]
fn every_method_has_a_row() {
    let services = contract().service;
    assert_eq!(services.len(), 1, "{services:?}");
    let methods = services[0].method.iter().map(|method| method.name().to_owned());
    let methods: BTreeSet<String> = methods.collect();
    let rows: BTreeSet<String> = ROWS.iter().map(|row| row.0.to_owned()).collect();
    assert!(methods.len() >= 12);
    assert_eq!(rows, methods, "the table has a row for every method, and no other");
}

#[tokio::test]
async fn without_a_valid_token_everything_is_refused_alike() {
    let guarded = Guarded::start().await;
    let mut client = client(&guarded.instance).await;
    let wrong = guarded.wrong_tokens().await;
    let before = guarded.everything().await;
    for row in ROWS {
        for (why, headers) in &wrong {
            let value = headers.trim_end().strip_prefix("authorization: ");
            let refusal = call(&mut client, row, "shop-", value).await;
            let elsewhere = call(&mut client, row, "nowhere-", value).await;
            let refusal = refusal.expect_err(why);
            assert_eq!(refusal.code(), Code::Unauthenticated, "{why}: {row:?}");
            assert_eq!(told(&refusal), told(&elsewhere.expect_err(why)), "{why}: {row:?}");
            is_problem(Err::<(), _>(refusal), Code::Unauthenticated, "unauthorized", "token");
        }
    }
    assert_eq!(guarded.everything().await, before, "something was taken or changed");
}

#[tokio::test]
async fn the_cookie_of_a_session_counts_for_nothing() {
    let guarded = Guarded::start().await;
    let own = "sec-fetch-site: same-origin\r\n";
    let signed_in = sign_in(&guarded.instance, &guarded.admin, own).await;
    let cookie = cookie_of(&signed_in);
    let read = guarded.instance.send("GET", "/v1/spaces", &format!("{cookie}{own}"), "").await;
    assert_eq!(read.status, 200, "{}", read.body);
    let mut ask = Request::new(v1::ListSpacesRequest::default());
    let value = cookie.trim_end().strip_prefix("cookie: ").unwrap();
    ask.metadata_mut().insert("cookie", MetadataValue::try_from(value).unwrap());
    ask.metadata_mut().insert("sec-fetch-site", MetadataValue::from_static("same-origin"));
    let refused = client(&guarded.instance).await.list_spaces(ask).await;
    is_problem(refused, Code::Unauthenticated, "unauthorized", "needs a token");
}

#[tokio::test]
async fn a_token_without_the_right_is_refused_alike_wherever_it_has_others() {
    let guarded = Guarded::start().await;
    let mut client = client(&guarded.instance).await;
    let mut wrong = BTreeMap::new();
    for right in RIGHTS {
        let others = RIGHTS.iter().filter(|it| **it != right && **it != "admin");
        let others: Vec<String> = others.map(|other| format!("{other}:*")).collect();
        let others = guarded.token(&format!("{right}-others"), &others).await;
        let elsewhere = format!("{right}:other,shop,shop-link,shop-linksx,shop-links-*");
        let elsewhere = [elsewhere, "admin:other-*".to_owned()];
        let elsewhere = guarded.token(&format!("{right}-elsewhere"), &elsewhere).await;
        let some = [format!("{right}:shop-*,d*"), "admin:shop-*".to_owned()];
        let some = guarded.token(&format!("{right}-some"), &some).await;
        wrong.insert(right, (others, elsewhere, some));
    }
    let before = guarded.everything().await;
    for row in ROWS {
        let (All(right) | In(right)) = row.1;
        let (others, elsewhere, some) = &wrong[right];
        let tokens = match row.1 {
            In(_) => vec![others, elsewhere],
            All(_) => vec![others, elsewhere, some],
        };
        for token in tokens {
            let value = format!("Bearer {token}");
            let refusal = call(&mut client, row, "shop-", Some(&value)).await.unwrap_err();
            let nowhere = call(&mut client, row, "nowhere-", Some(&value)).await.unwrap_err();
            assert_eq!(told(&refusal), told(&nowhere), "{row:?}");
            let says = "the token does not allow this";
            is_problem(Err::<(), _>(refusal), Code::PermissionDenied, "forbidden", says);
        }
    }
    assert_eq!(guarded.everything().await, before, "something was taken or changed");
}

#[tokio::test]
async fn the_right_token_gets_past_by_name_by_pattern_and_as_admin() {
    let guarded = Guarded::start().await;
    let mut client = client(&guarded.instance).await;
    let admin_of_some = guarded.token("admin-of-some", &["admin:shop-*".to_owned()]).await;
    for row in ROWS {
        let (All(right) | In(right)) = row.1;
        let mut tokens = vec![guarded.admin.clone()];
        let name = |kind: &str| format!("{}-{kind}", row.0.to_lowercase());
        tokens.push(guarded.token(&name("all"), &[format!("{right}:*")]).await);
        if let In(_) = row.1 {
            let named = [format!("{right}:shop-links,shop-urls")];
            tokens.push(guarded.token(&name("named"), &named).await);
            tokens.push(guarded.token(&name("pattern"), &[format!("{right}:shop-*")]).await);
            tokens.push(admin_of_some.clone());
        }
        for token in tokens {
            let answer = call(&mut client, row, "shop-", Some(&format!("Bearer {token}"))).await;
            let code = answer.err().map_or(Code::Ok, |status| status.code());
            let refused = [Code::Unauthenticated, Code::PermissionDenied, Code::Unimplemented];
            assert!(!refused.contains(&code), "{row:?}: {code:?}");
        }
    }
}

#[tokio::test]
async fn a_method_that_is_not_there_is_told_to_those_with_a_token_alone() {
    let guarded = Guarded::start().await;
    let ask = async |path: &'static str, value: Option<&str>| {
        let channel = super::channel(guarded.instance.address).await;
        let mut grpc = tonic::client::Grpc::new(channel);
        grpc.ready().await.unwrap();
        let mut request = Request::new(v1::GetSpaceRequest::default());
        if let Some(value) = value {
            let value = MetadataValue::try_from(value).unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        let path = tonic::codegen::http::uri::PathAndQuery::from_static(path);
        let codec = tonic_prost::ProstCodec::<v1::GetSpaceRequest, v1::Space>::default();
        grpc.unary(request, path, codec).await.unwrap_err()
    };
    let bearer = format!("Bearer {}", guarded.admin);
    for path in [
        "/keymill.v1.Keymill/Drop",
        "/keymill.v2.Keymill/Take",
        "/keymill.v1.Keymill/take",
        "/v1/spaces/default/keys",
        "/get-key",
    ] {
        let with = ask(path, Some(&bearer)).await;
        is_problem(Err::<(), _>(with), Code::Unimplemented, "not_found", path);
        let without = ask(path, None).await;
        is_problem(Err::<(), _>(without), Code::Unauthenticated, "unauthorized", "token");
    }
}

#[tokio::test]
async fn what_anonymous_callers_may_do_needs_no_token() {
    let instance = Instance::start().await;
    let settings = keymill::access::AccessSettings {
        anonymous: keymill::access::rights::Grants::parse(["take:default"]).unwrap(),
        ..Default::default()
    };
    instance.http.set_access(settings);
    instance.admin().await;
    let mut client = client(&instance).await;
    assert_eq!(super::take(&mut client, "default", 1).await.unwrap().len(), 1);
    for (row, space) in [(ROWS[0], "other-"), (ROWS[10], "shop-")] {
        let refusal = call(&mut client, &row, space, None).await;
        is_problem(refusal, Code::Unauthenticated, "unauthorized", "token");
    }
}

#[tokio::test]
async fn what_administrators_do_is_on_record() {
    let guarded = Guarded::start().await;
    let mut client = client(&guarded.instance).await;
    let ask = v1::EnsureSpaceRequest { space: "made".to_owned(), settings: None };
    client.ensure_space(bearing(&guarded.admin, ask.clone())).await.unwrap();
    let other = v1::SpaceSettings { length: Some(9), ..Default::default() };
    let other = v1::EnsureSpaceRequest { settings: Some(other), ..ask };
    client.ensure_space(bearing(&guarded.admin, other)).await.unwrap_err();
    let acts = guarded.instance.call_as(&guarded.admin, "GET", "/v1/acts?limit=1000").await.json();
    let acts = acts["acts"].as_array().unwrap().iter();
    let found: Vec<_> = acts.filter(|act| act["what"] == "EnsureSpace made").collect();
    assert_eq!(found.len(), 1, "the one that was refused is not on record: {found:?}");
    assert_eq!((&found[0]["by"], &found[0]["from"]), (&json!("admin"), &json!("127.0.0.1")));
}

#[tokio::test]
async fn administration_is_answered_only_on_the_admin_listener() {
    let local = Endpoint::Tcp(([127, 0, 0, 1], 0).into());
    let listeners = Listeners::bind(std::slice::from_ref(&local), Some(&local)).await.unwrap();
    let Some(Endpoint::Tcp(admin)) = listeners.admin().unwrap() else { panic!("{listeners:?}") };
    let instance = Instance::start_at(listeners, None, Default::default()).await;
    let ask = || v1::EnsureSpaceRequest { space: "made".to_owned(), settings: None };
    let refused = client(&instance).await.ensure_space(ask()).await;
    is_problem(refused, Code::Unimplemented, "not_found", "not answered on this address");
    assert!(client_at(admin).await.ensure_space(ask()).await.unwrap().into_inner().made);
    for address in [instance.address, admin] {
        let mut client = client_at(address).await;
        assert_eq!(super::take(&mut client, "made", 1).await.unwrap().len(), 1);
        client.list_spaces(v1::ListSpacesRequest::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_web_page_can_call_nothing() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    super::take(&mut client, "default", 1).await.unwrap();
    for (name, value) in
        [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("origin", "null")]
    {
        let ask = v1::TakeRequest { space: "default".to_owned(), ..Default::default() };
        let mut request = Request::new(ask);
        request.metadata_mut().insert(name, value.parse().unwrap());
        let refused = client.take(request).await;
        is_problem(refused, Code::PermissionDenied, "foreign_origin", "another origin");
    }
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", instance.address));
    let endpoint = endpoint.unwrap().origin("http://evil.example:8080".parse().unwrap());
    let mut renamed = Client::new(endpoint.connect().await.unwrap());
    let ask = v1::TakeRequest { space: "default".to_owned(), ..Default::default() };
    let refused = renamed.take(ask).await;
    is_problem(refused, Code::PermissionDenied, "foreign_host", "evil.example");
}

/// Calls a method on the keyspaces whose names begin like this, with a value of `authorization`.
async fn call(
    client: &mut Client,
    row: &Row,
    prefix: &str,
    authorization: Option<&str>,
) -> Result<(), Status> {
    fn ask<T>(message: T, authorization: Option<&str>) -> Request<T> {
        match authorization {
            Some(value) => super::with_header(value, message),
            None => Request::new(message),
        }
    }
    let space = format!("{prefix}links");
    let (alias, key) = ("a".to_owned(), "0000000".to_owned());
    let owner = String::new();
    match row.0 {
        "Take" => {
            let message = v1::TakeRequest { space, ..Default::default() };
            client.take(ask(message, authorization)).await.map(drop)
        }
        "TakeStream" => {
            let message = v1::TakeStreamRequest { space, credit: 1, ..Default::default() };
            let messages = tokio_stream::once(message);
            let mut keys = client.take_stream(ask(messages, authorization)).await?.into_inner();
            while keys.message().await?.is_some() {}
            Ok(())
        }
        "Digest" => {
            let message = v1::DigestRequest {
                space: format!("{prefix}urls"),
                inputs: vec!["x".to_owned()],
                scope: String::new(),
            };
            client.digest(ask(message, authorization)).await.map(drop)
        }
        "AddAlias" => {
            let message = v1::AddAliasRequest { space, alias: "b".to_owned(), owner };
            client.add_alias(ask(message, authorization)).await.map(drop)
        }
        "RemoveAlias" => {
            let message = v1::RemoveAliasRequest { space, alias, owner };
            client.remove_alias(ask(message, authorization)).await.map(drop)
        }
        "GetAlias" => {
            let message = v1::GetAliasRequest { space, alias };
            client.get_alias(ask(message, authorization)).await.map(drop)
        }
        "ListAliases" => {
            let message = v1::ListAliasesRequest { space, ..Default::default() };
            client.list_aliases(ask(message, authorization)).await.map(drop)
        }
        "Explain" => {
            let message = v1::ExplainRequest { space, key };
            client.explain(ask(message, authorization)).await.map(drop)
        }
        "Retire" => {
            let message = v1::RetireRequest { space, key };
            client.retire(ask(message, authorization)).await.map(drop)
        }
        "EnsureSpace" => {
            let message = v1::EnsureSpaceRequest { space, settings: None };
            client.ensure_space(ask(message, authorization)).await.map(drop)
        }
        "GetSpace" => {
            let message = v1::GetSpaceRequest { space };
            client.get_space(ask(message, authorization)).await.map(drop)
        }
        "ListSpaces" => {
            let message = v1::ListSpacesRequest::default();
            client.list_spaces(ask(message, authorization)).await.map(drop)
        }
        other => panic!("{other} cannot be called yet"),
    }
}

/// What a refusal tells: all of it but the ID of the request, and the keyspace that was asked for.
fn told(status: &Status) -> (Code, String, String) {
    (status.code(), status.message().replace("nowhere-", "shop-"), reason(status))
}
