//! The same cases on both databases.

use tempfile::TempDir;
use uuid::Uuid;

use super::*;

const HOUR: i64 = 3_600_000;
const URL: &str = "https://example.com/";

#[tokio::test]
async fn a_user_has_one_generated_link_for_a_url() {
    for (links, _folder) in databases().await {
        let (ann, bob) = (name(), name());
        let first = links.add(&link(&ann, URL)).await.unwrap().unwrap();
        let again = links.add(&Link { created_at: 7, ..link(&ann, URL) }).await.unwrap().unwrap();
        assert_eq!(again, first);
        let of_bob = links.add(&link(&bob, URL)).await.unwrap().unwrap();
        let elsewhere = links.add(&link(&ann, "https://example.org/")).await.unwrap().unwrap();
        assert!(of_bob.key != first.key && elsewhere.key != first.key);
        assert_eq!(links.list(&ann).await.unwrap().len(), 2);
        assert_eq!(links.find(&first.key).await.unwrap(), Some(first));
    }
}

#[tokio::test]
async fn of_many_at_once_one_wins_and_all_get_its_key() {
    for (links, _folder) in databases().await {
        let (ann, links) = (name(), std::sync::Arc::new(links));
        let adding = (0..20).map(|_| {
            let (links, new) = (links.clone(), link(&ann, URL));
            tokio::spawn(async move { links.add(&new).await.unwrap().unwrap().key })
        });
        let mut keys = Vec::new();
        for added in adding.collect::<Vec<_>>() {
            keys.push(added.await.unwrap());
        }
        keys.dedup();
        assert_eq!(keys.len(), 1);
    }
}

#[tokio::test]
async fn the_expiry_is_that_of_the_last_request_and_an_expired_link_gives_way_to_a_new_one() {
    for (links, _folder) in databases().await {
        let ann = name();
        let ends = |created_at, expires_at| Link { created_at, expires_at, ..link(&ann, URL) };
        let first = links.add(&ends(0, Some(HOUR))).await.unwrap().unwrap();
        let longer = links.add(&ends(1, Some(2 * HOUR))).await.unwrap().unwrap();
        assert_eq!((&longer.key, longer.expires_at), (&first.key, Some(2 * HOUR)));
        let next = links.add(&ends(2 * HOUR, None)).await.unwrap().unwrap();
        assert!(next.key != first.key && next.expires_at.is_none());
        let expired = links.find(&first.key).await.unwrap().unwrap();
        assert!(expired.has_ended(Timestamp::from_millisecond(2 * HOUR).unwrap()));
    }
}

#[tokio::test]
async fn an_alias_leads_to_one_url_for_good() {
    for (links, _folder) in databases().await {
        let (ann, bob) = (name(), name());
        let alias = Link { is_alias: true, ..link(&ann, URL) };
        let generated = links.add(&link(&ann, URL)).await.unwrap().unwrap();
        assert_eq!(links.add(&alias).await.unwrap(), Some(alias.clone()));
        assert_eq!(links.add(&alias).await.unwrap(), Some(alias.clone()), "a repeated request");
        for other in [
            Link { url: "https://example.org/".to_owned(), ..alias.clone() },
            Link { owner: bob.clone(), ..alias.clone() },
        ] {
            assert_eq!(links.add(&other).await.unwrap(), None);
        }
        let now = Timestamp::now();
        assert!(!links.end(&alias.key, &bob, now).await.unwrap());
        assert!(links.end(&alias.key, &ann, now).await.unwrap());
        assert!(links.end(&alias.key, &ann, now).await.unwrap(), "a repeated request");
        assert_eq!(links.add(&alias).await.unwrap(), None);
        assert_eq!(links.list(&ann).await.unwrap(), [generated]);
    }
}

fn link(owner: &str, url: &str) -> Link {
    let (owner, url) = (owner.to_owned(), url.to_owned());
    let (created_at, is_alias) = (0, false);
    Link { key: name(), owner, url, is_alias, created_at, expires_at: None, ended_at: None }
}

fn name() -> String {
    Uuid::new_v4().simple().to_string()
}

/// A SQLite file, and the PostgreSQL that `backends` has started for this run; names keep cases apart.
async fn databases() -> Vec<(Links, TempDir)> {
    let folder = || tempfile::tempdir().unwrap();
    let patience = Duration::from_secs(5);
    let file = folder();
    let name = format!("sqlite:{}", file.path().join("links.db").display());
    let mut found = vec![(Links::open(&name, patience).await.unwrap(), file)];
    match std::env::var("KEYMILL_TEST_POSTGRES") {
        Ok(url) => found.push((Links::open(&url, patience).await.unwrap(), folder())),
        Err(_) => {
            let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!is_ci, "KEYMILL_TEST_POSTGRES is not set, and CI must test on it");
            eprintln!(
                "\n*** NOT TESTED: KEYMILL_TEST_POSTGRES is not set; see CONTRIBUTING.md ***\n"
            );
        }
    }
    found
}
