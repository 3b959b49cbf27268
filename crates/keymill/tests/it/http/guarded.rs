//! An instance with tokens and something of everything, for tests of who may do what.

use jiff::{SignedDuration, Timestamp};
use keymill::access::secret_text;
use keymill_engine::operations::{TokenRecord, TokenSecret};
use serde_json::{Value, json};

use super::{Answer, Instance, settled};

/// An instance that has tokens, with keyspaces of several kinds.
pub(crate) struct Guarded {
    pub(crate) instance: Instance,
    pub(crate) admin: String,
}

impl Guarded {
    pub(crate) async fn start() -> Guarded {
        let instance = Instance::start().await;
        for (space, kind) in [
            ("shop-links", "shuffled"),
            ("shop-urls", "digest"),
            ("shop-pool", "pooled"),
            ("shop-ended", "uuid"),
        ] {
            assert_eq!(instance.put(space, &json!({"kind": kind})).await.status, 201, "{space}");
        }
        let alias = instance.call("PUT", "/v1/spaces/shop-links/aliases/a").await;
        assert_eq!(alias.status, 201, "{}", alias.body);
        let admin = instance.admin().await;
        let guarded = Guarded { instance, admin };
        guarded.token("victim", &["take:x".to_owned()]).await;
        guarded
    }

    pub(crate) async fn token(&self, name: &str, allow: &[String]) -> String {
        self.instance.token_by(&self.admin, &json!({"name": name, "allow": allow})).await
    }

    /// Headers that are no valid token, and why.
    pub(crate) async fn wrong_tokens(&self) -> Vec<(&'static str, String)> {
        let call = async |method: &str, path: &str, body: &str| {
            let json = "content-type: application/json\r\n";
            let answer = self.instance.send_as(&self.admin, method, path, json, body).await;
            assert!((200..300).contains(&answer.status), "{}", answer.body);
        };
        let all = ["admin:*".to_owned()];
        let revoked = self.token("revoked", &all).await;
        call("DELETE", "/v1/tokens/revoked", "").await;
        let rotated = self.token("rotated", &all).await;
        call("POST", "/v1/tokens/rotated/rotate", r#"{"overlap_seconds":0}"#).await;
        let expired = self.add_expired().await;
        // So that this instance has learnt of the expired one, too.
        self.token("last", &all).await;
        let mut mistyped = self.admin.clone();
        let last = mistyped.pop().unwrap();
        mistyped.push(if last == '0' { '1' } else { '0' });
        let unknown = secret_text::make().unwrap().to_string();
        let mut wrong: Vec<(&str, String)> = [
            ("mistyped", mistyped.as_str()),
            ("cut off", &self.admin[..40]),
            ("empty", ""),
            ("no token at all", "letmein"),
            ("unknown", &unknown),
            ("expired", &expired),
            ("revoked", &revoked),
            ("rotated", &rotated),
        ]
        .map(|(why, token)| (why, bearer(token)))
        .to_vec();
        wrong.push(("none", String::new()));
        wrong.push(("another scheme", "authorization: Basic YTpi\r\n".to_owned()));
        wrong
    }

    /// Puts a token on record that was valid until a minute ago; its text.
    async fn add_expired(&self) -> String {
        let text = secret_text::make().unwrap().to_string();
        let hash = secret_text::hash(text.as_bytes()).unwrap();
        let now = Timestamp::now();
        let record = TokenRecord {
            name: format!("expired-{}", hex::encode(&hash[..4])),
            secrets: vec![TokenSecret { sha256: hex::encode(hash), until: None }],
            allow: vec!["admin:*".to_owned()],
            expires_at: Some(now - SignedDuration::from_mins(1)),
            rate: None,
            quota: None,
            certificate: None,
            created_at: now - SignedDuration::from_mins(2),
            created_by: "test".to_owned(),
        };
        let add = |tokens: &mut Vec<TokenRecord>| {
            tokens.push(record.clone());
            Ok(())
        };
        self.instance.service.change_tokens(add).await.unwrap();
        text
    }

    /// The answer of a token's request, repeated while keys are on their way.
    pub(super) async fn settled(&self, token: &str, method: &str, path: &str) -> Answer {
        settled(async || self.instance.call_as(token, method, path).await).await
    }

    /// All that a request could take or change.
    pub(crate) async fn everything(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for path in [
            "/v1/spaces",
            "/v1/leases",
            "/v1/tokens?limit=1000",
            "/v1/spaces/shop-links/aliases",
            "/v1/spaces/shop-pool/used",
            "/v1/acts?limit=1000",
        ] {
            let answer = self.instance.call_as(&self.admin, "GET", path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            all.push(answer.json());
        }
        all
    }
}

pub(super) fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}
