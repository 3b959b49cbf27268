//! Races: many instances at once.

use super::*;

pub(crate) async fn many_instances_at_once_never_share_a_worker(case: &Case) {
    let timeline = case.with_layout("41/4/12").await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let handle = case.another().await;
        for _ in 0..6 {
            let other = handle.someone_else();
            tasks.spawn(async move {
                let ask = other.window_ask(timeline, 10 * LONG);
                loop {
                    match other.window_as(&ask).await {
                        Err(StoreError::Unavailable(_)) => continue,
                        answer => return answer,
                    }
                }
            });
        }
    }
    let (mut workers, mut refused) = (Vec::new(), 0);
    for answer in tasks.join_all().await {
        match answer {
            Ok(window) => workers.push(window.worker),
            Err(StoreError::NoWorker { workers: 16, .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    workers.sort_unstable();
    assert_eq!((workers, refused), ((0..16).collect::<Vec<u32>>(), 8));
}

pub(crate) async fn however_instances_race_the_windows_of_a_worker_are_disjoint(case: &Case) {
    let timeline = case.with_layout("41/2/12").await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let other = case.another().await.someone_else();
        tasks.spawn(async move { other.hold_in_turns(timeline, number).await });
    }
    let mut used: Vec<Window> = tasks.join_all().await.into_iter().flatten().collect();
    used.retain(|window| !window.ticks.is_empty());
    used.sort_unstable_by_key(|window| (window.worker, window.ticks.start));
    for pair in used.windows(2) {
        let [first, second] = pair else { unreachable!("windows of two") };
        let apart = first.worker != second.worker || first.ticks.end <= second.ticks.start;
        assert!(apart, "both may have been used: {first:?} and {second:?}");
    }
    assert!(used.len() >= 8, "only {} were used", used.len());
    for window in used {
        for tick in [window.ticks.start, window.ticks.end - 1] {
            let lease = case.lease_at(timeline, window.worker, tick).await;
            assert_eq!(lease.map(|lease| lease.lease), Some(window.lease), "{window:?}");
        }
    }
}

impl Case {
    /// Has workers for a while, and tells which ticks of which may have been used. Some are released
    /// half used, some at once, and some are left to end by themselves.
    async fn hold_in_turns(&self, timeline: Timeline, number: u64) -> Vec<Window> {
        let mut used = Vec::new();
        for turn in 0..9 {
            let length = 20 + (turn * 13 + number * 7) % 40;
            let ask = self.window_ask(timeline, length);
            let mut window = self.window_soon(&ask).await;
            for _ in 0..2 {
                let extension = WindowAsk { held: Some(held(&window)), ..ask.clone() };
                let more = self.window_soon(&extension).await;
                if more.lease == window.lease {
                    assert_eq!((more.worker, more.ticks.start), (window.worker, window.ticks.end));
                    window.ticks.end = more.ticks.end;
                } else {
                    // It had ended, and somebody has the worker now.
                    used.push(std::mem::replace(&mut window, more));
                }
            }
            if turn % 3 > 0 {
                let granted = window.ticks.end - window.ticks.start;
                let unused_from = window.ticks.start + granted / if turn % 3 == 1 { 2 } else { 8 };
                // Trying again is harmless.
                while let Err(error) = self.release_window(timeline, &window, unused_from).await {
                    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
                }
                window.ticks.end = unused_from;
            }
            used.push(window);
        }
        used
    }
}
