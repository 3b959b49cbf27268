//! Places: how many connections may be open, in all and for each address, and the few that are kept
//! for health checks and metrics when all others are taken.
//!
//! `accept` gives every connection a place; the thread that serves it holds the place until its end.
//!
//! # Invariants
//!
//! - A place is free again when it is dropped, however its connection ended.
//! - A place of the reserve is held for [`RESERVE_TIME_MAX`] at most, and for less where others come:
//!   then the one that was held longest is cut off. A flood of silent connections therefore cannot
//!   keep a health check out, which is answered within a millisecond.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::front::addresses::counted_as;

/// How many connections beyond the limit are open at once.
pub const RESERVE: usize = 64;
/// How long each of them may last.
const RESERVE_TIME_MAX: Duration = Duration::from_secs(2);

/// The right to be open.
#[derive(Debug)]
pub(super) enum Place {
    /// One of `connections_max`.
    Usual { _permit: OwnedSemaphorePermit },
    /// One of the reserve: until its time is over, or until it is cut off.
    Reserved { until: Instant, cut_off: oneshot::Receiver<()> },
}

impl Place {
    /// Serves a connection on this place. `None` where it was cut off.
    pub(super) async fn hold<T>(self, served: impl Future<Output = T>) -> Option<T> {
        match self {
            Place::Usual { _permit } => Some(served.await),
            Place::Reserved { until, cut_off } => tokio::select! {
                served = served => Some(served),
                _ = cut_off => None,
                () = sleep_until(until) => None,
            },
        }
    }

    /// Until when it may be held at most.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Place::Usual { .. } => None,
            Place::Reserved { until, .. } => Some(*until),
        }
    }

    /// Whether only health checks and metrics are answered here.
    pub(super) fn is_reserved(&self) -> bool {
        self.until().is_some()
    }
}

/// The places beyond the limit.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    /// Those that are held, the oldest first; dropping one cuts its connection off.
    held: VecDeque<oneshot::Sender<()>>,
}

impl Reserve {
    /// A place, for which the oldest one is cut off where there is no other.
    pub(super) fn take(&mut self) -> Place {
        self.held.retain(|place| !place.is_closed());
        if self.held.len() >= RESERVE {
            self.held.pop_front();
        }
        let (held, cut_off) = oneshot::channel();
        self.held.push_back(held);
        Place::Reserved { until: Instant::now() + RESERVE_TIME_MAX, cut_off }
    }
}

/// How many connections each address has open.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One of the connections of an address, until it is dropped.
#[derive(Debug)]
pub(super) struct AddressPlace {
    counted: Option<(Arc<Addresses>, IpAddr)>,
}

impl AddressPlace {
    /// That of a connection that is not counted.
    pub(super) fn exempt() -> AddressPlace {
        AddressPlace { counted: None }
    }
}

impl Addresses {
    /// Counts a connection of an address; `None` where it has `max` open already. Loopback is exempt:
    /// who connects from there runs on this machine, and is a proxy in front of everybody, or a load
    /// test, and `connections_max` bounds it all the same.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr, max: usize) -> Option<AddressPlace> {
        if address.to_canonical().is_loopback() {
            return Some(AddressPlace::exempt());
        }
        let address = counted_as(address);
        let mut open = self.open();
        let count = open.entry(address).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(AddressPlace { counted: Some((self.clone(), address)) })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().expect("nothing panics while it is held")
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let Some((addresses, address)) = self.counted.take() else { return };
        let mut open = addresses.open();
        if let Some(count) = open.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let addresses = Arc::new(Addresses::default());
        let enter = |text: &str| addresses.enter(text.parse().unwrap(), 2);
        let first = enter("2001:db8::1").unwrap();
        let second = enter("2001:db8::2").unwrap();
        assert!(enter("2001:db8::3").is_none(), "the same /64");
        assert!(enter("2001:db8:0:1::1").is_some(), "another /64");
        drop(first);
        let third = enter("2001:db8::3").unwrap();
        drop((second, third));
        assert!(addresses.open().is_empty(), "nothing is kept of addresses that left");
    }

    #[test]
    fn loopback_is_not_counted() {
        let addresses = Arc::new(Addresses::default());
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(addresses.enter(address.parse().unwrap(), 0).is_some(), "{address}");
        }
    }

    #[tokio::test]
    async fn the_oldest_of_the_reserve_makes_room_for_the_newest() {
        let mut reserve = Reserve::default();
        let oldest = reserve.take();
        let others: Vec<Place> = (1..RESERVE).map(|_| reserve.take()).collect();
        let forever = || std::future::pending::<()>();
        let newest = reserve.take();
        assert!(oldest.hold(forever()).await.is_none(), "cut off");
        assert_eq!(newest.hold(async { 7 }).await, Some(7));
        // Those that have ended make room first.
        drop(others);
        let one = reserve.take();
        for _ in 1..RESERVE {
            drop(reserve.take());
        }
        assert_eq!(one.hold(async { 7 }).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_of_the_reserve_ends_by_itself() {
        let mut reserve = Reserve::default();
        let place = reserve.take();
        assert!(place.hold(std::future::pending::<()>()).await.is_none());
    }
}
