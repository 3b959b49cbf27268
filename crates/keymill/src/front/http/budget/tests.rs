//! Tests of the budget, with time that is paused.

use bytes::Bytes;

use super::room::Room;
use super::*;

/// What the smallest budget has for each kind, and how many pieces that is.
const HALF: usize = UNSENT_MIN / 2;
const PIECES: usize = HALF / PIECE_BYTES;

#[tokio::test(start_paused = true)]
async fn an_answer_has_two_pieces_unsent_and_no_more() {
    let budget = Budget::new(UNSENT_MIN);
    let account = budget.open(None);
    let first = account.reserve(None).await.hold(vec![1; 10]);
    let _second = account.reserve(None).await.hold(vec![2; 10]);
    assert_eq!(first[..], [1_u8; 10]);
    assert!(waits(account.reserve(None)).await, "both are unsent");
    // A part that is still in use holds the piece.
    let part = first.slice(3..5);
    drop(first);
    assert!(waits(account.reserve(None)).await);
    drop(part);
    assert!(!waits(account.reserve(None)).await);
    assert_eq!(budget.room.available_permits(), HALF - PIECE_BYTES);
}

#[tokio::test(start_paused = true)]
async fn all_answers_together_keep_within_the_budget() {
    let budget = Budget::new(UNSENT_MIN);
    let mut pieces = full(&budget, &None).await;
    let late = budget.open(None);
    assert!(waits(late.reserve(None)).await);
    // A whole text does not wait for them, but for others of its kind.
    let whole = budget.try_reserve_whole(HALF).unwrap();
    assert!(budget.try_reserve_whole(1).is_none());
    assert!(budget.reserve_whole(1, Duration::from_secs(3)).await.is_none());
    drop(whole);
    pieces.pop();
    assert!(!waits(late.reserve(None)).await);
    drop(pieces);
    assert_eq!(budget.room.available_permits(), HALF);
    assert_eq!(budget.wanted.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn who_holds_the_budget_without_reading_is_cut_off_when_others_wait() {
    let budget = Budget::new(UNSENT_MIN);
    let line = Arc::new(Line::default());
    let held = full(&budget, &Some(line.clone())).await;
    let deaf = tokio::spawn(async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    line.cut_with(deaf.abort_handle());
    tokio::time::sleep(STALL_MAX * 3).await;
    assert!(!deaf.is_finished(), "nobody waits");
    let late = budget.open(None);
    let room = timeout(STALL_MAX, late.reserve(None)).await;
    assert!(room.is_ok(), "what was held came free");
    assert!(deaf.await.unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn who_reads_slowly_is_not_cut_off() {
    let budget = Budget::new(UNSENT_MIN);
    let line = Arc::new(Line::default());
    let mut held = full(&budget, &Some(line.clone())).await;
    let slow = tokio::spawn(std::future::pending::<()>());
    line.cut_with(slow.abort_handle());
    let late = budget.open(None);
    // Every account holds two pieces, side by side: each of them has one sent in time.
    let waited = timeout(STALL_MAX / 2, budget.reserve(&budget.room, HALF)).await;
    assert!(waited.is_err());
    for place in (0..PIECES / 2).rev() {
        held.remove(place * 2);
    }
    let waited = timeout(STALL_MAX / 2 + LOOK_EVERY, budget.reserve(&budget.room, HALF)).await;
    assert!(waited.is_err() && !slow.is_finished());
    assert!(!waits(late.reserve(None)).await);
    slow.abort();
}

#[tokio::test(start_paused = true)]
async fn a_whole_text_gives_back_what_it_does_not_need() {
    let budget = Budget::new(UNSENT_MIN);
    let account = budget.open(None);
    let whole = budget.reserve_whole(UNSENT_MIN * 9, STALL_MAX).await.unwrap();
    assert_eq!(budget.room_of_wholes.available_permits(), 0, "all of it, and no more");
    let whole = whole.settle(1_000, &account);
    let held = 1_000 + ANSWER_PIECES_MAX * PIECE_BYTES;
    assert_eq!(budget.room_of_wholes.available_permits(), HALF - held);
    assert_eq!(account.held.load(Ordering::Relaxed), held);
    drop(whole);
    assert_eq!(budget.room_of_wholes.available_permits(), HALF);
    assert_eq!(account.held.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_whole_text_that_takes_all_there_is_does_not_wait_for_itself() {
    let budget = Budget::new(UNSENT_MIN);
    let account = budget.open(None);
    let whole = budget.reserve_whole(UNSENT_MIN, STALL_MAX).await.unwrap();
    let whole = whole.settle(UNSENT_MIN, &account);
    assert_eq!(budget.room_of_wholes.available_permits(), 0);
    let first = account.reserve(Some(&whole)).await.hold(vec![1; 10]);
    let _second = account.reserve(Some(&whole)).await.hold(vec![2; 10]);
    assert!(waits(account.reserve(Some(&whole))).await, "two pieces and no more");
    drop(first);
    assert!(!waits(account.reserve(Some(&whole))).await);
}

#[tokio::test]
async fn answers_that_have_ended_are_forgotten() {
    let budget = Budget::new(UNSENT_MIN);
    let kept = budget.open(None);
    for _ in 0..10_000 {
        budget.open(None);
    }
    assert!(budget.accounts.lock().unwrap().len() < 100);
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// Answers that hold all of the budget, two pieces each.
async fn full(budget: &Arc<Budget>, line: &Option<Arc<Line>>) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    while pieces.len() < PIECES {
        let account = budget.open(line.clone());
        for _ in 0..ANSWER_PIECES_MAX {
            pieces.push(account.reserve(None).await.hold(vec![0; PIECE_BYTES]));
        }
    }
    pieces
}

/// Whether there is no room yet. What was reserved is given back.
async fn waits(reserve: impl Future<Output = Room>) -> bool {
    timeout(Duration::from_millis(1), reserve).await.is_err()
}
