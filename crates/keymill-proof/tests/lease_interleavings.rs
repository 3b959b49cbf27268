//! Every interleaving of draws, the swap of leases and the seal, on the very `lease.rs` that
//! runs in production, with loom's atomics in place of the machine's.

// Some of what production uses is not called here.
#[allow(dead_code, unreachable_pub, clippy::all)]
#[path = "../../keymill-engine/src/source/lease.rs"]
mod lease;

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

use lease::{Draw, LeasePair};
use loom::sync::Arc;
use loom::thread;

#[test]
fn two_draws_never_share_an_ordinal_across_the_swap_of_leases() {
    explore(|| {
        let leases = Arc::new(LeasePair::new());
        assert!(leases.offer(0..2));
        leases.draw(1);
        assert!(leases.offer(10..12));
        let other = {
            let leases = leases.clone();
            thread::spawn(move || [drawn(&leases, 1), drawn(&leases, 2)].concat())
        };
        let mut all = drawn(&leases, 2);
        all.extend(other.join().unwrap());
        all.extend(drawn(&leases, 9));
        all.extend(drawn(&leases, 9));
        all.sort_unstable();
        assert_eq!(all, [1, 10, 11]);
    });
}

#[test]
fn a_draw_that_slept_through_a_refill_of_its_slot_draws_nothing_stale() {
    explore(|| {
        let leases = Arc::new(LeasePair::new());
        assert!(leases.offer(0..1));
        let sleeper = {
            let leases = leases.clone();
            thread::spawn(move || drawn(&leases, 1))
        };
        // The slot that the sleeper may have read is spent, left and filled again.
        let mut all = drawn(&leases, 1);
        for start in [10, 20] {
            if !leases.has_next() {
                assert!(leases.offer(start..start + 1));
            }
            all.extend(drawn(&leases, 1));
        }
        all.extend(sleeper.join().unwrap());
        let rest: Vec<u64> = leases.seal().into_iter().flatten().collect();
        all.extend(rest);
        let offered = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), offered, "an ordinal was drawn twice: {all:?}");
        assert!(all.iter().all(|ordinal| [0, 10, 20].contains(ordinal)), "{all:?}");
    });
}

#[test]
fn a_seal_and_a_draw_share_nothing_and_lose_nothing() {
    explore(|| {
        let leases = Arc::new(LeasePair::new());
        assert!(leases.offer(0..2));
        leases.draw(1);
        assert!(leases.offer(10..11));
        let drawer = {
            let leases = leases.clone();
            thread::spawn(move || [drawn(&leases, 2), drawn(&leases, 2)].concat())
        };
        let mut all: Vec<u64> = leases.seal().into_iter().flatten().collect();
        all.extend(drawer.join().unwrap());
        all.sort_unstable();
        assert_eq!(all, [1, 10]);
        assert_eq!(leases.draw(1), Draw::Sealed);
    });
}

#[test]
fn an_offer_is_seen_whole_or_not_at_all() {
    explore(|| {
        let leases = Arc::new(LeasePair::new());
        let drawer = {
            let leases = leases.clone();
            thread::spawn(move || drawn(&leases, 3))
        };
        assert!(leases.offer(5..7));
        let mut all = drawer.join().unwrap();
        all.extend(drawn(&leases, 3));
        assert_eq!(all, [5, 6]);
    });
}

fn explore(case: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    // Three forced switches find every bug of two threads that depends on order.
    model.preemption_bound = Some(3);
    model.check(case);
}

fn drawn(leases: &LeasePair, wanted: u64) -> Vec<u64> {
    match leases.draw(wanted) {
        Draw::Drawn { ordinals, .. } => ordinals.collect(),
        Draw::Dry | Draw::Sealed => Vec::new(),
    }
}
