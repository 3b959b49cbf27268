//! Lists are read page by page, and the header says where the next page is.

use std::collections::BTreeSet;

use keymill::server::ServerLimits;
use serde_json::{Value, json};

use super::{Answer, Instance};

#[tokio::test]
async fn every_list_is_followed_to_its_end_by_its_links() {
    let instance = Instance::start().await;
    for space in ["a", "b", "c", "d"] {
        assert_eq!(instance.put(space, &json!({"audit": "key"})).await.status, 201);
        assert_eq!(instance.call("POST", &format!("/v1/spaces/{space}/keys")).await.status, 200);
    }
    assert_eq!(instance.call("POST", "/v1/spaces/a/keys?count=4&caller=x+y").await.status, 200);
    for alias in ["one", "two", "three", "four", "five"] {
        let path = format!("/v1/spaces/default/aliases/{alias}");
        assert_eq!(instance.call("PUT", &path).await.status, 201);
    }
    let all = async |path: &str, list: &str| -> Vec<Value> {
        let (mut all, mut at) = (Vec::new(), path.to_owned());
        loop {
            let answer = instance.call("GET", &at).await;
            let page = answer.json();
            let some = page[list].as_array().unwrap_or_else(|| panic!("{at}: {page}")).clone();
            assert!(some.len() <= 2, "{at}: {page}");
            all.extend(some);
            let link = next(&answer);
            assert_eq!(link.is_some(), page["next"].is_string(), "{at}: {page}");
            match link {
                Some(link) => at = link,
                None => return all,
            }
        }
    };
    let names = |of: &[Value], field: &str| -> Vec<String> {
        of.iter().map(|one| one[field].as_str().unwrap().to_owned()).collect()
    };
    let spaces = all("/v1/spaces?limit=2", "spaces").await;
    assert_eq!(names(&spaces, "name"), ["a", "b", "c", "d", "default"]);
    let aliases = all("/v1/spaces/default/aliases?limit=2", "aliases").await;
    assert_eq!(names(&aliases, "alias"), ["five", "four", "one", "three", "two"]);
    let leases = names(&all("/v1/leases?limit=2", "leases").await, "space");
    assert!(leases.len() >= 4 && leases.is_sorted(), "{leases:?}");
    let of_one = names(&all("/v1/leases?space=b&limit=1", "leases").await, "space");
    assert!(!of_one.is_empty() && of_one.iter().all(|space| space == "b"), "{of_one:?}");
    let used = all("/v1/spaces/a/used?caller=x+y&limit=2", "used").await;
    assert_eq!((used.len(), &used[3]["caller"]), (4, &json!("x y")));
}

#[tokio::test]
async fn the_list_of_instances_is_followed_by_its_links_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("keymill.db").display());
    let one = Instance::start_on(Some(store.clone()), ServerLimits::default()).await;
    let other = Instance::start_on(Some(store), ServerLimits::default()).await;
    one.service.announce("one".to_owned());
    other.service.announce("other".to_owned());
    let both = BTreeSet::from([&one, &other].map(|it| it.service.instance().id.clone()));
    let get = async |path: &str| one.call("GET", path).await;
    let begin = std::time::Instant::now();
    // They report themselves in their own time.
    while get("/v1/instances").await.json()["instances"].as_array().unwrap().len() < 2 {
        assert!(begin.elapsed().as_secs() < 20, "an instance does not report itself");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let first = get("/v1/instances?limit=1").await;
    let second = get(&next(&first).unwrap()).await;
    // A full page may have been the last one.
    let third = get(&next(&second).unwrap()).await;
    assert_eq!((next(&third), third.json()["instances"].as_array().unwrap().len()), (None, 0));
    let ids = [first, second].map(|page| {
        let page = page.json();
        assert_eq!(page["instances"].as_array().unwrap().len(), 1, "{page}");
        page["instances"][0]["id"].as_str().unwrap().to_owned()
    });
    assert_eq!(BTreeSet::from(ids), both);
}

#[tokio::test]
async fn a_list_has_a_hundred_where_nobody_says_how_many() {
    let instance = Instance::start().await;
    for number in 0..101 {
        let path = format!("/v1/spaces/default/aliases/a{number}");
        assert_eq!(instance.call("PUT", &path).await.status, 201);
    }
    let page = instance.call("GET", "/v1/spaces/default/aliases").await;
    assert_eq!(page.json()["aliases"].as_array().unwrap().len(), 100);
    let rest = instance.call("GET", &next(&page).unwrap()).await;
    assert_eq!(rest.json()["aliases"].as_array().unwrap().len(), 1);
    assert_eq!(next(&rest), None);
    for after in ["", "a%00", &"x".repeat(256)] {
        let path = format!("/v1/spaces?after={after}");
        instance.call("GET", &path).await.is_problem(400, "bad_parameter", "`after` must be");
    }
}

/// Where the next page is, as the header says.
fn next(answer: &Answer) -> Option<String> {
    let link = answer.head.lines().find_map(|line| line.strip_prefix("link: <"))?;
    let (path, relation) = link.split_once('>').unwrap();
    assert_eq!(relation, "; rel=\"next\"");
    Some(path.to_owned())
}
