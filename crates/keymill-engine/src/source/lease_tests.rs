//! Tests of `lease`, in a file of their own: the proof crate compiles `lease.rs` with loom's
//! atomics, on which these cannot run.

#![expect(clippy::single_range_in_vec_init, reason = "a list of one lease is meant")]

use std::ops::Range;

use super::lease::{Draw, LeasePair, TURN_MASK};

#[test]
fn a_draw_larger_than_the_lease_is_cut_short() {
    check(&[0..3], &[100, 1], &[Some(0..3), None]);
}

#[test]
fn drawing_moves_on_to_the_next_lease_where_the_first_ends() {
    check(
        &[5..7, 90..93],
        &[1, 9, 2, 9, 1],
        &[Some(5..6), Some(6..7), Some(90..92), Some(92..93), None],
    );
}

#[test]
fn the_highest_ordinals_can_be_drawn() {
    let top = i64::MAX as u64;
    check(&[top - 2..top], &[1, 1, 1], &[Some(top - 2..top - 1), Some(top - 1..top), None]);
}

#[test]
fn a_seal_returns_exactly_what_was_not_drawn() {
    let leases = LeasePair::new();
    assert!(leases.offer(10..20));
    leases.draw(3);
    assert!(leases.offer(50..60));
    assert_eq!(leases.left(), 17);
    assert_eq!(leases.seal(), [13..20, 50..60]);
    assert_eq!(leases.draw(1), Draw::Sealed);
    assert!(!leases.offer(70..80));
    assert_eq!(leases.seal(), [0..0, 0..0]);
}

#[test]
fn a_lease_is_low_once_when_it_passes_its_mark() {
    let leases = LeasePair::new();
    leases.offer(0..100);
    leases.draw(1);
    leases.set_low_mark(50);
    let low: Vec<bool> =
        (0..9).map(|_| matches!(leases.draw(10), Draw::Drawn { low: true, .. })).collect();
    assert_eq!(low, [false, false, false, false, true, false, false, false, false]);
}

#[test]
fn turns_wrap_without_a_slip() {
    let leases = LeasePair::starting_at(TURN_MASK);
    assert!(leases.offer(7..8));
    assert_eq!(leases.draw(1), Draw::Drawn { ordinals: 7..8, low: true });
    assert!(leases.offer(8..9));
    assert_eq!(leases.draw(1), Draw::Drawn { ordinals: 8..9, low: true });
}

#[test]
fn threads_never_draw_one_ordinal_twice() {
    const LEASES: u64 = 2_000;
    let leases = LeasePair::new();
    let mut drawn: Vec<u64> = std::thread::scope(|scope| {
        let drawers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    loop {
                        match leases.draw(3) {
                            Draw::Drawn { ordinals, .. } => mine.extend(ordinals),
                            Draw::Dry => std::thread::yield_now(),
                            Draw::Sealed => return mine,
                        }
                    }
                })
            })
            .collect();
        for lease in 0..LEASES {
            while leases.has_next() {
                std::thread::yield_now();
            }
            assert!(leases.offer(lease * 7..lease * 7 + 7));
        }
        while leases.left() > 0 {
            std::thread::yield_now();
        }
        leases.seal();
        drawers.into_iter().flat_map(|drawer| drawer.join().unwrap()).collect()
    });
    drawn.sort_unstable();
    assert_eq!(drawn, (0..LEASES * 7).collect::<Vec<_>>());
}

/// The one place that knows the API, so the tests above stay pure data.
#[track_caller]
fn check(granted: &[Range<u64>], wanted: &[u64], expected: &[Option<Range<u64>>]) {
    let leases = LeasePair::new();
    let mut granted = granted.iter();
    let mut drawn = Vec::new();
    for &wanted in wanted {
        if !leases.has_next() {
            granted.next().map(|range| leases.offer(range.clone()));
        }
        drawn.push(match leases.draw(wanted) {
            Draw::Drawn { ordinals, .. } => Some(ordinals),
            Draw::Dry | Draw::Sealed => None,
        });
    }
    assert_eq!(drawn, expected);
}
