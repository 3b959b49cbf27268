//! What the first release left behind: a data directory that this version goes on with, without
//! repeating a key.
//!
//! The files in `fixtures/v0_1` were written by keymill 0.1.0. Its last instance was killed, so two
//! leases of `links` and of `tickets`, claimed keys of `coupons` and a worker of `ids` are still its
//! own. `taken.txt` lists the keys that were handed out, `earlier.sql` is the database from before
//! the last of them. They are never changed.

use std::collections::HashSet;
use std::path::PathBuf;

use keymill_engine::internals::store::Opening;
use keymill_engine::operations::Service;
use rusqlite::Connection;

use crate::cli::Place;
use crate::setup::setup;

const LATER: &str = include_str!("fixtures/v0_1/later.sql");
const EARLIER: &str = include_str!("fixtures/v0_1/earlier.sql");
const FLOORS: &str = include_str!("fixtures/v0_1/floors.json");
const SHARED_FLOORS: &str = include_str!("fixtures/v0_1/keymill.db-floors.json");
const TAKEN: &str = include_str!("fixtures/v0_1/taken.txt");

#[test]
fn the_first_releases_keyspaces_go_on_where_they_ended() {
    let (place, _) = place(LATER, &[("floors.json", FLOORS), SHARED]);
    let links = take(&place, "links", 300);
    let told = place.ok(&["explain", "links", &links[0]]);
    assert!(told.contains("ordinal    300\n"), "the leases of the killed one stay its own: {told}");
    let tickets = take(&place, "tickets", 100);
    let expected: Vec<String> =
        (150..=250).filter(|it| *it != 200).map(|it| format!("{it:06}")).collect();
    assert_eq!(tickets, expected, "the key of a removed alias stays reserved");
    let coupons = take(&place, "coupons", 31);
    assert!(["WELCOME1", "WELCOME2"].iter().all(|own| coupons.iter().any(|it| it == own)));
    place.fails(&["take", "coupons"], 4, "pool fill coupons");
    take(&place, "ids", 50);
    take(&place, "default", 10);
    // What was on record tells as much as before.
    for (space, key, says) in [
        ("links", "summer-sale", "alias of marketing"),
        ("tickets", "000123", "alias of marketing"),
        ("tickets", "000130", "imported"),
        ("tickets", "000200", "skipped"),
        ("tickets", "000029", "issued"),
        ("tickets", "000140", "leased"),
    ] {
        let told = place.ok(&["explain", space, key]);
        assert!(told.contains(says), "{space} {key}: {told}");
    }
    place.fails(&["alias", "add", "links", "summer-sale"], 6, "owned by someone else");
    let floors = std::fs::read_to_string(place.path().join("keymill/floors.json")).unwrap();
    let floors: serde_json::Value = serde_json::from_str(&floors).unwrap();
    let links = &floors["3536ae972a415ca8"]["links"];
    assert!(links["next"].as_u64().unwrap() >= 600, "the same file goes on: {floors}");
}

#[tokio::test]
async fn the_first_releases_inputs_keep_their_keys() {
    let (place, data_dir) = place(LATER, &[("floors.json", FLOORS), SHARED]);
    let url = format!("sqlite:{}", data_dir.join("keymill.db").display());
    let store = keymill_engine::internals::store::open(&url, Opening::default()).await.unwrap();
    let service = Service::start(setup(store, &data_dir)).await.unwrap();
    for (input, key) in [("https://example.com/a", "2zi0Mdi"), ("https://example.com/b", "bTP8tmW")]
    {
        let found = service.digest("pages", "", input).await.unwrap();
        assert_eq!((found.key.as_str(), found.made), (key, false));
    }
    assert!(service.digest("pages", "", "https://example.com/c").await.unwrap().made);
    service.leave().await;
    drop(place);
}

/// Each of its two floor files is enough.
#[test]
fn the_first_releases_floors_refuse_a_database_from_before() {
    for floors in [("floors.json", FLOORS), SHARED] {
        let (place, _) = place(EARLIER, &[floors]);
        for space in ["links", "tickets", "coupons", "ids"] {
            place.fails(&["take", space], 5, &format!("keymill space advance {space}"));
        }
        place.fails(&["alias", "add", "tickets", "000999"], 5, "space advance tickets");
        for space in ["links", "tickets", "coupons"] {
            place.ok(&["space", "advance", space, "--yes"]);
        }
        assert_eq!(take(&place, "tickets", 1), ["000150"], "{}", floors.0);
        take(&place, "links", 200);
        place.fails(&["take", "coupons"], 4, "pool fill coupons");
        place.ok(&["pool", "fill", "coupons", "--count", "5"]);
        take(&place, "coupons", 5);
    }
}

/// The floor file beside the database.
const SHARED: (&str, &str) = ("keymill.db-floors.json", SHARED_FLOORS);

/// A data directory with this database and these floors, where the command line looks for it.
fn place(database: &str, floors: &[(&str, &str)]) -> (Place, PathBuf) {
    let place = Place::new();
    let data_dir = place.path().join("keymill");
    std::fs::create_dir(&data_dir).unwrap();
    let connection = Connection::open(data_dir.join("keymill.db")).unwrap();
    connection.execute_batch(database).unwrap();
    connection.close().unwrap();
    for (name, content) in floors {
        std::fs::write(data_dir.join(name), content).unwrap();
    }
    (place, data_dir)
}

/// Takes keys, none of which the first release has handed out.
#[track_caller]
fn take(place: &Place, space: &str, count: usize) -> Vec<String> {
    let before: HashSet<&str> = TAKEN.lines().filter_map(|line| line.strip_prefix(space)).collect();
    let keys = place.ok(&["take", space, "-n", &count.to_string()]);
    let keys: Vec<String> = keys.lines().map(str::to_owned).collect();
    let distinct: HashSet<&String> = keys.iter().collect();
    assert_eq!((keys.len(), distinct.len()), (count, count), "{space}");
    let again = keys.iter().find(|key| before.contains(format!(" {key}").as_str()));
    assert_eq!(again, None, "{space} handed it out before");
    assert!(space == "default" || !before.is_empty());
    keys
}
