//! The token list, and the record of acts.

use jiff::Timestamp;
use keymill_engine::internals::store::{
    Act, ActPage, ERA, Floor, Mark, StoreError, TokenChange, TokenList,
};
use tokio::task::JoinSet;

use super::{Case, is_rolled_back};

pub(super) async fn a_token_list_is_empty_at_first(case: &Case) {
    let list = case.tokens().await;
    assert_eq!((list.revision, list.text.as_str()), (0, ""));
    assert_eq!(case.acts(None, 10).await, []);
    // Nor does it count as a keyspace.
    assert!(case.store.spaces.spaces().await.unwrap().is_empty());
    assert!(case.store.instances.heartbeat(&case.pulse()).await.unwrap().marks.is_empty());
}

pub(super) async fn a_token_list_is_replaced_at_the_revision_that_was_read(case: &Case) {
    let mark = case.replace(0, "first").await.unwrap().unwrap();
    assert_eq!((mark.revision, mark.next), (1, 0));
    assert_eq!(case.tokens().await.mark(), mark, "what a change says is what is read");
    assert_eq!(case.replace(0, "too late").await.unwrap(), None);
    assert_eq!(case.replace(2, "too early").await.unwrap(), None);
    let list = case.tokens().await;
    assert_eq!((list.revision, list.text.as_str()), (1, "first"));
    // Quotes, several bytes a character, and more than one page of a database.
    let long = r#"{"name":"käse \"1\"\\ $1 {now}"}"#.repeat(4_000);
    assert_eq!(case.replace(1, &long).await.unwrap().unwrap().revision, 2);
    assert_eq!(case.replace(2, "").await.unwrap().unwrap().revision, 3);
    assert_eq!(case.replace(3, &long).await.unwrap().unwrap().revision, 4);
    let list = case.tokens().await;
    assert!(list.revision == 4 && list.text == long);
    assert!(case.store.spaces.spaces().await.unwrap().is_empty());
    assert!(case.store.instances.heartbeat(&case.pulse()).await.unwrap().marks.is_empty());
}

pub(super) async fn of_many_who_replace_the_token_list_at_once_one_does(case: &Case) {
    for expected in 0..3 {
        let mut asking = JoinSet::new();
        for number in 0..8 {
            let (store, unseen) = (case.store.clone(), case.unseen.clone());
            asking.spawn(async move {
                let text = number.to_string();
                let change = TokenChange { expected, revision: expected + 1, text: text.clone() };
                (text, store.tokens.replace_tokens(&change, &unseen).await.unwrap())
            });
        }
        let answers = asking.join_all().await;
        let made: Vec<_> = answers.into_iter().filter(|(_, mark)| mark.is_some()).collect();
        assert_eq!(made.len(), 1, "{made:?}");
        let list = case.tokens().await;
        assert_eq!((list.revision, &list.text), (expected + 1, &made[0].0));
    }
}

pub(super) async fn a_token_list_below_the_floor_is_refused(case: &Case) {
    let seen = case.floor(2, 0);
    // Also where there never was one.
    assert!(is_rolled_back(&case.store.tokens.tokens(&seen).await));
    assert!(is_rolled_back(&case.replace_above(&seen, 0, 1).await));
    case.replace(0, "kept").await.unwrap().unwrap();
    assert!(is_rolled_back(&case.store.tokens.tokens(&seen).await));
    // It would lead to the floor, but what was seen there is lost.
    assert!(is_rolled_back(&case.replace_above(&seen, 1, 2).await));
    let list = case.tokens().await;
    assert_eq!((list.revision, list.text.as_str()), (1, "kept"), "a refusal changes nothing");
    let reached = case.floor(1, 0);
    assert_eq!(case.store.tokens.tokens(&reached).await.unwrap(), list);
    assert!(case.replace_above(&reached, 1, 2).await.unwrap().is_some());
    assert!(case.store.tokens.tokens(&seen).await.is_ok());
}

pub(super) async fn a_token_list_goes_on_in_the_next_era_after_a_rollback(case: &Case) {
    case.replace(0, "old").await.unwrap().unwrap();
    let seen = case.floor(7, 0);
    assert_eq!(case.replace_above(&seen, 0, ERA).await.unwrap(), None, "others were faster");
    let mark = case.replace_above(&seen, 1, ERA).await.unwrap().unwrap();
    assert_eq!(mark.revision, ERA);
    // Whatever others have seen before it.
    let list = case.store.tokens.tokens(&case.floor(1_000, 0)).await.unwrap();
    assert_eq!((list.revision, list.text.as_str()), (ERA, "changed"));
    assert!(case.replace_above(&seen, ERA, ERA + 1).await.unwrap().is_some());
    // The floor is of that era, and the list was rolled back to it once more.
    let later = case.floor(ERA + 9, 0);
    assert!(is_rolled_back(&case.replace_above(&later, ERA + 1, ERA + 2).await));
    assert!(case.replace_above(&later, ERA + 1, 2 * ERA).await.unwrap().is_some());
}

pub(super) async fn the_token_list_of_another_store_is_refused(case: &Case) {
    let another = Floor { store: "another".to_owned(), mark: Mark::default() };
    for expected in [0, 1] {
        assert!(is_rolled_back(&case.store.tokens.tokens(&another).await));
        for revision in [expected + 1, ERA] {
            assert!(is_rolled_back(&case.replace_above(&another, expected, revision).await));
        }
        case.replace(expected, "ours").await.unwrap().unwrap();
    }
}

pub(super) async fn acts_are_listed_in_their_order_page_by_page(case: &Case) {
    let act = |number: u32| Act {
        id: 0,
        at: Timestamp::from_millisecond(1_700_000_000_000 + i64::from(number)).unwrap(),
        by: "shop".to_owned(),
        from: "[::1]:443".to_owned(),
        what: format!("act {number}: \"quoted\" käse"),
    };
    for number in 0..5 {
        case.store.tokens.record_act(&act(number)).await.unwrap();
    }
    let all = case.acts(None, 100).await;
    for (number, found) in (0..).zip(&all) {
        assert_eq!(*found, Act { id: found.id, ..act(number) });
    }
    assert!(all.len() == 5 && all.is_sorted_by(|one, next| one.id < next.id), "{all:?}");
    assert_eq!(case.acts(None, 2).await, all[..2]);
    assert_eq!(case.acts(Some(all[1].id), 2).await, all[2..4]);
    assert_eq!(case.acts(Some(all[3].id), 2).await, all[4..]);
    assert_eq!(case.acts(Some(all[4].id), 2).await, []);
    // A change of the list and an act leave each other alone.
    assert_eq!(case.tokens().await.revision, 0);
    case.replace(0, "list").await.unwrap().unwrap();
    assert_eq!(case.acts(None, 100).await, all);
}

pub(super) async fn acts_at_once_are_all_on_record(case: &Case) {
    let mut acting = JoinSet::new();
    for number in 0..10 {
        let store = case.store.clone();
        acting.spawn(async move {
            let what = number.to_string();
            let (by, from) = (String::new(), String::new());
            let act = Act { id: 0, at: Timestamp::UNIX_EPOCH, by, from, what };
            store.tokens.record_act(&act).await.unwrap();
        });
    }
    acting.join_all().await;
    let found = case.acts(None, 100).await;
    assert!(found.is_sorted_by(|one, next| one.id < next.id), "{found:?}");
    let mut numbers: Vec<u32> = found.iter().map(|act| act.what.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, Vec::from_iter(0..10));
}

impl Case {
    async fn tokens(&self) -> TokenList {
        self.store.tokens.tokens(&self.unseen).await.unwrap()
    }

    async fn replace(&self, expected: u64, text: &str) -> Result<Option<Mark>, StoreError> {
        let change = TokenChange { expected, revision: expected + 1, text: text.to_owned() };
        self.store.tokens.replace_tokens(&change, &self.unseen).await
    }

    async fn replace_above(
        &self,
        floor: &Floor,
        expected: u64,
        revision: u64,
    ) -> Result<Option<Mark>, StoreError> {
        let change = TokenChange { expected, revision, text: "changed".to_owned() };
        self.store.tokens.replace_tokens(&change, floor).await
    }

    async fn acts(&self, after: Option<u64>, limit: u32) -> Vec<Act> {
        self.store.tokens.acts(&ActPage { after, limit }).await.unwrap()
    }
}
