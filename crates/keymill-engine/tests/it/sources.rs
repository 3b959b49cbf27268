//! The sources of spaces of all kinds: which of them need a task in the background.

use std::time::Duration;

use keymill_engine::operations::Service;
use keymill_engine::space::{Kind, SpaceSpec};

use crate::unreliable::{Unreliable, setup};

/// Each had one that leased ordinals for nobody, and one of digests a second one, which committed nothing.
#[tokio::test]
async fn spaces_of_uuids_and_digests_start_no_task() {
    let folder = tempfile::tempdir().unwrap();
    let store = Unreliable::open(folder.path()).await;
    let service = Service::start(setup(store.store(), folder.path())).await.unwrap();
    let runtime = tokio::runtime::Handle::current().metrics();
    for (kind, expected) in [
        (Kind::Shuffled, 1),
        (Kind::Sequential, 1),
        (Kind::Pooled, 1),
        (Kind::Snowflake, 1),
        (Kind::Uuid, 0),
        (Kind::Digest, 0),
    ] {
        let (name, before) = (kind.to_string(), runtime.num_alive_tasks());
        let wanted = SpaceSpec { kind: Some(kind), ..SpaceSpec::default() };
        service.ensure_space(&name, &wanted).await.unwrap();
        service.space(&name).await.unwrap();
        assert_eq!(runtime.num_alive_tasks() - before, expected, "{kind}");
    }
    // They serve without one; the task that commits digests begins with the first of them.
    let uuids = service.space("uuid").await.unwrap();
    assert_eq!(service.take(&uuids, 3, "", |_| {}).await.unwrap().count, 3);
    let first = service.digest("digest", "", "a page").await.unwrap();
    let again = service.digest("digest", "", "a page").await.unwrap();
    assert_eq!((first.key, first.made, again.made), (again.key, true, false));
    service.stop(Duration::from_secs(5)).await;
}
