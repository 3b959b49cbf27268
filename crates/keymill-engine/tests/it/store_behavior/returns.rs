//! Leases that come back, many at once, with what came back below the end of drawing.

use keymill_engine::internals::store::{Floor, GiveBack, Grant};

use super::{Case, is_rolled_back};

pub(super) async fn leases_of_many_spaces_come_back_at_once_and_each_is_judged_alone(case: &Case) {
    let other = |name: &str| format!("{}-{name}", case.space);
    let cases = ["c", "a", "b"].map(|name| case.beside(other(name)));
    for it in &cases {
        it.with_capacity(1_000).await;
    }
    let [several, lost, whole] = &cases;
    let (first, second) = (several.lease(10).await, several.lease(10).await);
    let (of_lost, of_whole) = (lost.lease(10).await, whole.lease(10).await);
    let before = lost.mark().await;
    let floor = lost.floor(before.revision + 5, before.next);
    let nowhere = case.beside(other("d"));
    let backs = [
        (several.back(&first, 4), case.unseen.clone()),
        (lost.back(&of_lost, 4), floor),
        (nowhere.back(&first, 4), case.unseen.clone()),
        (whole.back(&of_whole, 10), case.unseen.clone()),
        (several.back(&second, 10), case.unseen.clone()),
        (
            GiveBack { instance: "somebody".to_owned(), ..several.back(&first, 9) },
            case.unseen.clone(),
        ),
    ];
    let answers = case.store.leases.give_back(&backs).await.unwrap();
    assert_eq!(answers.len(), backs.len(), "an answer for each");
    assert!(is_rolled_back(&answers[1]), "{:?}", answers[1]);
    assert!(answers[2].is_err(), "a space that is not there: {:?}", answers[2]);
    let revision = |place: usize| answers[place].as_ref().unwrap().revision;
    // Those of one space may be told together.
    assert!(revision(0) > second.lease && revision(4) == second.lease + 2);
    assert_eq!(answers[5].as_ref().unwrap(), answers[4].as_ref().unwrap(), "it was closed");
    assert_eq!(several.mark().await, *answers[4].as_ref().unwrap());
    assert_eq!(whole.mark().await, *answers[3].as_ref().unwrap());
    assert_eq!(lost.mark().await, before, "what is refused changes nothing");
    let returned =
        async |it: &Case| it.store.spaces.space(&it.space).await.unwrap().returned.count();
    let counts = (returned(several).await, returned(lost).await, returned(whole).await);
    assert_eq!(counts, (14, 0, 10));
    // What was refused is still open, and comes back once the floor is right.
    lost.give_back(&of_lost, 4).await.unwrap();
    assert_eq!(returned(lost).await, 4);
    assert!(case.store.leases.give_back(&[]).await.unwrap().is_empty());
}

pub(super) async fn hundreds_of_leases_come_back_at_once(case: &Case) {
    const SPACES: u64 = 40;
    const LEASES: u64 = 8;
    let beside = |number: u64| case.beside(format!("{}-{number}", case.space));
    let cases: Vec<Case> = (0..SPACES).map(beside).collect();
    let (mut backs, mut starts) = (Vec::new(), Vec::new());
    for it in &cases {
        it.with_capacity(1_000).await;
        starts.push(it.mark().await.revision);
        for _ in 0..LEASES {
            backs.push((it.back(&it.lease(5).await, 3), it.unseen.clone()));
        }
    }
    // In no order of their spaces.
    let place = |number: usize| (number * 131) % backs.len();
    let mixed: Vec<(GiveBack, Floor)> =
        (0..backs.len()).map(|number| backs[place(number)].clone()).collect();
    let answers = case.store.leases.give_back(&mixed).await.unwrap();
    assert_eq!(answers.len(), mixed.len());
    for ((back, _), answer) in mixed.iter().zip(&answers) {
        assert!(answer.is_ok(), "{back:?}: {answer:?}");
    }
    for (it, start) in cases.iter().zip(starts) {
        let record = it.store.spaces.space(&it.space).await.unwrap();
        assert_eq!((record.returned.count(), record.mark.revision), (24, start + 2 * LEASES));
    }
}

pub(super) async fn what_came_back_below_the_end_of_drawing_is_granted_again(case: &Case) {
    case.with_capacity(1_000).await;
    let (first, second) = (case.lease(10).await, case.lease(10).await);
    case.give_back_ranges(&first, 8, &[(0, 3), (8, 10)]).await;
    case.give_back_ranges(&second, 20, &[(12, 14)]).await;
    let record = case.store.spaces.space(&case.space).await.unwrap();
    assert_eq!((record.returned.count(), record.left()), (7, 987));
    let granted = [1, 100, 100, 100].map(|size| case.lease(size));
    let mut ordinals = Vec::new();
    let mut leases = Vec::new();
    for grant in granted {
        let grant = grant.await;
        leases.push(grant.lease);
        ordinals.push((grant.ordinals.start, grant.ordinals.end));
    }
    assert_eq!(ordinals, [(0, 1), (1, 3), (8, 10), (12, 14)]);
    assert_eq!(case.lease(1).await.ordinals, 20..21, "and nothing else");
    // Each ordinal is of the lease that it was granted with last.
    let (a, b) = (first.lease, second.lease);
    let expected = [
        (0, leases[0]),
        (1, leases[1]),
        (2, leases[1]),
        (3, a),
        (7, a),
        (9, leases[2]),
        (11, b),
        (12, leases[3]),
        (14, b),
    ];
    for (ordinal, lease) in expected {
        let found = case.store.leases.lease_of(&case.space, ordinal).await.unwrap();
        assert_eq!(found.map(|found| found.lease), Some(lease), "ordinal {ordinal}");
    }
}

impl Case {
    async fn give_back_ranges(&self, grant: &Grant, closed_at: u64, ranges: &[(u64, u64)]) {
        let returned = ranges.iter().map(|(start, end)| *start..*end).collect();
        let back = GiveBack { closed_at, returned, ..self.back(grant, 0) };
        self.give_back_as(&back).await.unwrap();
    }
}
