//! A store that loses what was committed while a keyspace is imported: the keyspace is not opened without its rows,
//! because keys that are in use could be handed out again.

use std::path::Path;

use keymill_engine::ServiceError;
use keymill_engine::internals::store::{Floor, Mark};
use keymill_engine::operations::{AdvanceAsk, Service};

use crate::rollback::{back_up, restore, tickets};
use crate::unreliable::{Unreliable, setup};

#[tokio::test]
async fn a_keyspace_is_not_opened_without_rows_that_the_store_has_lost() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Unreliable::open(into.path()).await;
    let service = Service::start(setup(store.store(), &into.path().join("data"))).await.unwrap();
    let lines = exported(from.path(), &service).await;
    let (header, rest) = lines.split_first().unwrap();
    let mut import = service.import_file();
    import.add(header).await.unwrap();
    back_up(into.path());
    let folder = into.path().to_owned();
    store.pause_for(async move { restore(&folder) });
    let mut refusal = None;
    for line in rest {
        refusal = import.add(line).await.err();
    }
    let Some(ServiceError::RolledBack(how)) = refusal else { panic!("{refusal:?}") };
    let remedy = &how.remedy;
    assert!(
        remedy.contains("space advance tickets") && remedy.contains("import again"),
        "{remedy}"
    );
    let record = store.store().spaces.space("tickets").await.unwrap();
    assert!(record.sealed && record.tuning.importing.is_some(), "{record:?}");
    // As the message says.
    let plan = service.plan_advance("tickets", AdvanceAsk::default()).await.unwrap();
    service.advance(&plan).await.unwrap();
    let mut import = service.import_file();
    for line in &lines {
        import.add(line).await.unwrap();
    }
    assert!(!import.finish().unwrap().sealed);
    let taken = service.add_alias("tickets", "sale", "another").await;
    assert!(matches!(taken, Err(ServiceError::Taken { .. })), "{taken:?}");
}

#[tokio::test]
async fn a_keyspace_whose_opening_was_lost_is_not_told_to_be_open() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Unreliable::open(into.path()).await;
    let service = Service::start(setup(store.store(), &into.path().join("data"))).await.unwrap();
    let lines = exported(from.path(), &service).await;
    let (end, before) = lines.split_last().unwrap();
    let mut import = service.import_file();
    for line in before {
        import.add(line).await.unwrap();
    }
    // The rows are written with the last line; the pause is behind the opening.
    let folder = into.path().to_owned();
    let (link, again) = (store.clone(), store.store());
    let unseen = Floor { store: service.store_identity().await.unwrap(), mark: Mark::default() };
    store.pause_for(async move {
        back_up(&folder);
        link.pause_for(async move {
            restore(&folder);
            for _ in 0..3 {
                let tuning = again.spaces.space("tickets").await.unwrap().tuning;
                again.spaces.tune("tickets", &tuning, &unseen).await.unwrap();
            }
        });
    });
    let refusal = import.add(end).await;
    assert!(matches!(refusal, Err(ServiceError::RolledBack(_))), "{refusal:?}");
}

/// The lines of a keyspace with an alias, for the store of another service.
async fn exported(folder: &Path, target: &Service) -> Vec<String> {
    let store = Unreliable::open(folder).await;
    let service = Service::start(setup(store.store(), &folder.join("data"))).await.unwrap();
    tickets(&service, 1_000).await;
    service.add_alias("tickets", "sale", "me").await.unwrap();
    service.seal("tickets").await.unwrap();
    let identity = target.store_identity().await.unwrap();
    let mut file = service.export_file("tickets", &identity, false).await.unwrap();
    let mut text = String::new();
    while let Some(some) = file.lines().await.unwrap() {
        text.push_str(&some);
    }
    text.lines().map(str::to_owned).collect()
}
