//! Tokens over HTTP: those of the store beside those of the settings.

use jiff::Timestamp;
use keymill::access::AccessSettings;
use keymill_engine::operations::{TokenRecord, TokenSecret};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{Answer, Instance};

#[tokio::test]
async fn tokens_of_the_settings_are_listed_and_cannot_be_changed() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    let shop = json!({"name": "shop", "allow": ["take:*"], "rate": 5, "quota": 9});
    instance.token_by(&admin, &shop).await;
    let secret = TokenSecret { sha256: "ab".repeat(32), until: None };
    let mall = TokenRecord {
        name: "mall".to_owned(),
        secrets: vec![secret],
        allow: vec!["read:*".to_owned()],
        expires_at: Some(Timestamp::UNIX_EPOCH),
        rate: None,
        quota: None,
        certificate: None,
        created_at: Timestamp::UNIX_EPOCH,
        created_by: "settings".to_owned(),
    };
    instance.http.set_access(AccessSettings { tokens: vec![mall], ..Default::default() });
    let listed = instance.call_as(&admin, "GET", "/v1/tokens").await.json();
    let tokens = listed["tokens"].as_array().unwrap();
    let names: Vec<_> =
        tokens.iter().map(|it| (&it["name"], &it["source"], &it["expired"])).collect();
    let (store, settings) = (json!("store"), json!("settings"));
    let expected = [
        (&json!("admin"), &store, &json!(false)),
        (&json!("mall"), &settings, &json!(true)),
        (&json!("shop"), &store, &json!(false)),
    ];
    assert_eq!(names, expected, "{listed}");
    assert_eq!((&tokens[2]["rate"], &tokens[2]["quota"]), (&json!(5), &json!(9)));
    assert!(tokens[1].get("created_at").is_none() && tokens[2]["created_at"].is_string());
    assert!(!listed.to_string().contains("abab"), "{listed}");
    let second = instance.call_as(&admin, "GET", "/v1/tokens?after=admin&limit=1").await.json();
    assert_eq!((&second["tokens"][0]["name"], &second["next"]), (&json!("mall"), &json!("mall")));
    let shown = instance.call_as(&admin, "GET", "/v1/tokens/mall").await.json();
    assert_eq!(shown, tokens[1]);
    for (method, path) in [("DELETE", "/v1/tokens/mall"), ("POST", "/v1/tokens/mall/rotate")] {
        let refused = instance.call_as(&admin, method, path).await;
        refused.is_problem(400, "bad_token", "is in the settings");
        let path = path.replace("mall", "nope");
        instance.call_as(&admin, method, &path).await.is_problem(404, "unknown_token", "`nope`");
    }
    for name in [".", ".."] {
        let ask = json!({"name": name, "allow": ["take:*"]}).to_string();
        let refused = instance.send_as(&admin, "POST", "/v1/tokens", "", &ask).await;
        refused.is_problem(400, "bad_token", "part of a URL");
    }
}

#[tokio::test]
async fn an_import_stops_once_its_token_is_revoked_and_says_how_far_it_got() {
    let instance = Instance::start().await;
    assert_eq!(instance.put("coupons", &json!({"kind": "pooled"})).await.status, 201);
    let admin = instance.admin().await;
    let ask = json!({"name": "importer", "allow": ["admin:coupons"]});
    let importer = instance.token_by(&admin, &ask).await;
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    let head = format!(
        "POST /v1/spaces/coupons/pool HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {importer}\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // One batch, and a few lines of the next one.
    let chunk = |numbers: std::ops::Range<u32>| {
        let lines: String = numbers.map(|number| format!("{number:07}\n")).collect();
        format!("{:x}\r\n{lines}\r\n", lines.len())
    };
    stream.write_all(chunk(0..10_100).as_bytes()).await.unwrap();
    let available = async || instance.service.report("coupons").await.unwrap().available;
    let begin = std::time::Instant::now();
    while available().await != Some(10_000) {
        assert!(begin.elapsed().as_secs() < 20, "the first batch is never imported");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let revoked = instance.call_as(&admin, "DELETE", "/v1/tokens/importer").await;
    assert_eq!(revoked.status, 204, "{}", revoked.body);
    // A few: what is not read when the connection ends could take the answer with it.
    stream.write_all(chunk(20_000..20_010).as_bytes()).await.unwrap();
    let refused = Answer::read(&mut stream).await;
    refused.is_problem(401, "unauthorized", "10000 keys were imported");
    assert_eq!(available().await, Some(10_000), "more was imported");
    // It is on record, because a part of it was done.
    let acts = instance.call_as(&admin, "GET", "/v1/acts").await.json();
    let acts = acts["acts"].as_array().unwrap();
    let is_import = |act: &&serde_json::Value| act["by"] == "importer";
    assert_eq!(acts.iter().filter(is_import).count(), 1, "{acts:?}");
}
