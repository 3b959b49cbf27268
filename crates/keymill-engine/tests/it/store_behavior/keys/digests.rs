//! Digests: the same input has the same key.

use super::*;

pub(crate) async fn a_digest_gives_the_same_key_for_the_same_input(case: &Case) {
    case.with_capacity(100).await;
    let before = case.mark().await;
    let batch = case.digest_ask(&[input(1, &["aaa", "bbb"]), input(2, &["ccc"])]).await;
    let first = case.rows().digests.digest(&batch).await.unwrap();
    assert_eq!(first.keys, [new_key("aaa", 0), new_key("ccc", 0)]);
    assert_eq!(first.mark, Mark { revision: before.revision + 1, ..before });
    let again = case.another_instance().await.rows().digests.digest(&batch).await.unwrap();
    assert_eq!(again.keys, [old_key("aaa"), old_key("ccc")]);
    assert_eq!((again.mark, case.mark().await), (first.mark, first.mark));
    // The input counts, not what could be made of it; also where it comes twice at once.
    let inputs = [input(3, &["ddd"]), input(1, &["eee"]), input(3, &["ddd", "fff"])];
    let keys = case.digest(&inputs).await;
    assert_eq!(keys, [new_key("ddd", 0), old_key("aaa"), old_key("ddd")]);
}

pub(crate) async fn a_digest_moves_on_where_a_candidate_is_taken(case: &Case) {
    case.with_capacity(100).await;
    case.take_names(NamePurpose::Alias, &[("aaa", None)]).await;
    case.take_names(NamePurpose::Used, &[("bbb", None)]).await;
    let inputs = [input(1, &["aaa", "bbb", "ccc"]), input(2, &["ccc", "ddd"]), input(3, &["eee"])];
    let keys = case.digest(&inputs).await;
    assert_eq!(keys, [new_key("ccc", 2), new_key("ddd", 1), new_key("eee", 0)]);
    // Bytes, not letters.
    assert_eq!(case.digest(&[input(4, &["AAA"])]).await, [new_key("AAA", 0)]);
    let again = [old_key("ccc"), old_key("ddd"), old_key("eee")];
    assert_eq!(case.digest(&inputs).await, again);
}

pub(crate) async fn a_digest_without_a_free_candidate_has_no_key(case: &Case) {
    case.with_capacity(100).await;
    case.take_names(NamePurpose::Alias, &[("aaa", None)]).await;
    case.digest(&[input(1, &["bbb"])]).await;
    let before = case.mark().await;
    for _ in 0..2 {
        assert_eq!(case.digest(&[input(2, &["aaa", "bbb"])]).await, [None::<DigestKey>]);
    }
    assert_eq!(case.mark().await, before, "nothing was made");
    // The others of a batch get theirs all the same.
    let keys = case.digest(&[input(2, &["aaa", "bbb"]), input(3, &["ccc"])]).await;
    assert_eq!(keys, [None, new_key("ccc", 0)]);
    assert_eq!(case.digest(&[input(2, &["aaa", "ddd"])]).await, [new_key("ddd", 1)]);
}

pub(crate) async fn instances_at_once_agree_on_digests(case: &Case) {
    case.with_capacity(100).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..4 {
        let other = case.another_instance().await;
        // All have the same inputs, each in an order of its own.
        let mut order: Vec<u8> = (0..40).collect();
        order.rotate_left(number * 10);
        if number % 2 == 1 {
            order.reverse();
        }
        tasks.spawn(async move { other.digest_pairs(&order).await });
    }
    let answers = tasks.join_all().await;
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    let keys = distinct(answers[0].values().cloned());
    assert_eq!(keys.len(), 40, "no two inputs have the same key");
    assert_eq!(keys.iter().filter(|key| key.starts_with("first")).count(), 20);
}

pub(crate) async fn the_key_of_a_digest_is_nobody_elses(case: &Case) {
    case.with_capacity(100).await;
    case.digest(&[input(1, &["aaa"])]).await;
    for purpose in [NamePurpose::Alias, NamePurpose::Used, NamePurpose::Pool] {
        assert_eq!(case.take_names(purpose, &[("aaa", None)]).await, [Naming::Taken]);
    }
    let floor = case.floor(0, 0).await;
    let left = case.store.names.remove_name(&case.space, "aaa", "", &floor).await.unwrap().unwrap();
    assert_eq!((left.purpose, left.removed_at), (NamePurpose::Digest, None));
    assert_eq!(case.store.names.named(&case.space, &name_only("aaa")).await.unwrap(), Some(left));
    assert_eq!(case.digest(&[input(1, &["aaa"])]).await, [old_key("aaa")]);
    assert_eq!(case.available().await, 0);
}

pub(crate) async fn a_digest_chosen_by_other_generations_is_outdated(case: &Case) {
    case.with_capacity(100).await;
    assert_eq!(case.digest(&[input(1, &["aaa"])]).await, [new_key("aaa", 0)]);
    case.grow(&[8], 200).await.unwrap();
    let before = case.mark().await;
    let ask = async |generations| {
        let inputs = [input(1, &["aaaa"]), input(2, &["bbbb"])];
        let batch = DigestBatch { generations, ..case.digest_ask(&inputs).await };
        case.rows().digests.digest(&batch).await
    };
    for others in [1, 3] {
        let refusal = ask(others).await;
        assert!(matches!(refusal, Err(StoreError::Outdated(_))), "{others}: {refusal:?}");
    }
    assert_eq!(case.mark().await, before, "a refused request changes nothing");
    let digested = ask(2).await.unwrap();
    assert_eq!(digested.keys, [old_key("aaa"), new_key("bbbb", 0)], "what is known keeps its key");
}

pub(crate) async fn a_digest_is_on_record_with_its_key(case: &Case) {
    case.with_capacity(100).await;
    let inputs = [input(1, &["aaa"]), input(2, &["bbb"])];
    let batch = case.digest_ask(&inputs).await;
    let mark = case.rows().digests.digest(&batch).await.unwrap().mark;
    let is_on_record = async |number: u8, key: &str| {
        let evidence = Evidence::Digest { hash: [number; 32], key: key.to_owned() };
        case.confirm(mark, evidence, 0..0).await.unwrap().on_record
    };
    assert!(is_on_record(1, "aaa").await && is_on_record(2, "bbb").await);
    assert!(!is_on_record(1, "bbb").await, "the key of another input");
    assert!(!is_on_record(3, "aaa").await, "an input that has none");
    let counted = case.store.names.count_names(Some(&case.space)).await.unwrap();
    assert_eq!(counted.get(&case.space), Some(&2), "they are names, too");
}
