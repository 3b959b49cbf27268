//! A store whose calls are counted and timed, whatever database is behind it.
//!
//! The fence opens every store like this ([`Store::measured`]), so that no driver has to measure. A call is timed from
//! the outside: waits for a connection and repeated attempts of a driver are part of it. Nothing here changes what is
//! asked or answered.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use tracing::Instrument;

use super::*;
use crate::instance::Instance;
use crate::latency::{Bounds, Histogram, Latencies};
use crate::space::{Definition, Tuning};

/// How calls fail, as they are counted. The last are answers that are no failure of the store: a keyspace that is unknown,
/// used up, sealed or has grown.
const ERRORS: [&str; 5] = ["unavailable", "in_doubt", "rolled_back", "broken", "refused"];

/// The calls of a store.
#[derive(Debug)]
pub(crate) struct StoreFigures {
    /// One for each [`Operation`].
    calls: [Calls; Operation::NAMES.len()],
}

#[derive(Debug, Default)]
struct Calls {
    latencies: Histogram,
    errors: [AtomicU64; ERRORS.len()],
}

/// The calls of one operation.
#[derive(Debug, Clone)]
pub struct CallFigures {
    /// The operation.
    pub operation: &'static str,
    /// How long calls took, also those that failed, in the buckets of [`Bounds::STORE_CALLS`].
    pub latencies: Latencies,
    /// How many failed, and how.
    pub errors: Vec<(&'static str, u64)>,
}

/// A part of a store, with what is counted of it.
#[derive(Debug)]
struct Measured<T: ?Sized> {
    part: Arc<T>,
    figures: Arc<StoreFigures>,
}

impl Store {
    /// The same store, whose calls are counted.
    pub(crate) fn measured(self, figures: &Arc<StoreFigures>) -> Store {
        fn of<T: ?Sized>(part: Arc<T>, figures: &Arc<StoreFigures>) -> Arc<Measured<T>> {
            Arc::new(Measured { part, figures: figures.clone() })
        }
        Store {
            spaces: of(self.spaces, figures),
            leases: of(self.leases, figures),
            windows: of(self.windows, figures),
            names: of(self.names, figures),
            snapshots: of(self.snapshots, figures),
            moves: of(self.moves, figures),
            instances: of(self.instances, figures),
            tokens: of(self.tokens, figures),
            admin: of(self.admin, figures),
            rows: self.rows.map(|KeyRows { pools, use_log, digests }| KeyRows {
                pools: of(pools, figures),
                use_log: of(use_log, figures),
                digests: of(digests, figures),
            }),
        }
    }
}

impl StoreFigures {
    /// The calls so far, of every operation that was called.
    pub(crate) fn all(&self) -> Vec<CallFigures> {
        let all = Operation::NAMES.iter().zip(&self.calls).map(|(operation, calls)| CallFigures {
            operation,
            latencies: calls.latencies.get(),
            errors: calls.errors(),
        });
        all.filter(|calls| calls.latencies.count() > 0).collect()
    }

    /// Waits for a call, and counts it.
    async fn call<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let name = Operation::NAMES[operation as usize];
        let span = tracing::trace_span!(
            target: "keymill::span",
            "store",
            otel.name = name,
            otel.kind = "client",
            db.operation.name = name,
            "error.type" = tracing::field::Empty,
        );
        let began = Instant::now();
        let answer = call.instrument(span.clone()).await;
        let calls = &self.calls[operation as usize];
        calls.latencies.add(&Bounds::STORE_CALLS, began.elapsed(), 1);
        if let Err(error) = &answer {
            let class = class(error);
            calls.errors[class].fetch_add(1, Ordering::Relaxed);
            span.record("error.type", ERRORS[class]);
        }
        answer
    }
}

impl Default for StoreFigures {
    fn default() -> StoreFigures {
        StoreFigures { calls: std::array::from_fn(|_| Calls::default()) }
    }
}

impl Calls {
    fn errors(&self) -> Vec<(&'static str, u64)> {
        let counts = self.errors.iter().map(|count| count.load(Ordering::Relaxed));
        ERRORS.into_iter().zip(counts).collect()
    }
}

/// Which of [`ERRORS`] an error is.
fn class(error: &StoreError) -> usize {
    match error {
        StoreError::Unavailable(_) => 0,
        StoreError::InDoubt(_) => 1,
        StoreError::RolledBack(_) => 2,
        StoreError::Broken(_) => 3,
        StoreError::UnknownSpace(_)
        | StoreError::Exhausted { .. }
        | StoreError::NoWorker { .. }
        | StoreError::Sealed(_)
        | StoreError::Outdated(_) => 4,
    }
}

/// Implements the parts of a store by asking the part behind it: what asks the store is counted under its own name, what
/// stands behind an `@` is passed on.
macro_rules! measure {
    ($($part:ident {
        $($method:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*
        $(@ $plain:ident($($plain_arg:ident: $plain_type:ty),*) -> $plain_answer:ty;)*
    })*) => {
        /// A call of a store.
        #[derive(Debug, Clone, Copy)]
        #[expect(non_camel_case_types, reason = "they are named as the methods are")]
        enum Operation { $($($method,)*)* }

        impl Operation {
            const NAMES: &'static [&'static str] = &[$($(stringify!($method),)*)*];
        }

        $(#[async_trait]
        impl $part for Measured<dyn $part> {
            $(async fn $method(&self, $($arg: $type),*) -> Result<$answer, StoreError> {
                self.figures.call(Operation::$method, self.part.$method($($arg),*)).await
            })*

            $(fn $plain(&self, $($plain_arg: $plain_type),*) -> $plain_answer {
                self.part.$plain($($plain_arg),*)
            })*
        })*
    };
}

measure! {
    Spaces {
        create(new: &NewSpace, floor: &Floor) -> Created;
        tune(space: &str, tuning: &Tuning, floor: &Floor) -> SpaceRecord;
        grow(space: &str, definition: &Definition, capacity: u64, floor: &Floor) -> SpaceRecord;
        space(space: &str) -> SpaceRecord;
        spaces() -> Vec<SpaceRecord>;
        seal(space: &str, floor: &Floor) -> SpaceRecord;
        advance(space: &str, to: Mark, by: &Instance) -> SpaceRecord;
        report_sighting(space: &str, instance: &str, seen: Mark) -> ();
        sighted(space: &str) -> Option<Mark>;
    }
    Leases {
        lease(ask: &LeaseAsk, floor: &Floor) -> Grant;
        give_back(backs: &[(GiveBack, Floor)]) -> Vec<Result<Mark, StoreError>>;
        lease_of(space: &str, ordinal: u64) -> Option<LeaseRecord>;
        leases(page: &LeasePage) -> Vec<LeaseRecord>;
    }
    Windows {
        window(ask: &WindowAsk, floor: &Floor) -> Window;
        clock_ms(own_ms: i64) -> i64;
        release_window(release: &WindowRelease, floor: &Floor) -> Mark;
    }
    Names {
        add_names(batch: &NameBatch, floor: &Floor) -> Named;
        remove_name(space: &str, key: &str, owner: &str, floor: &Floor) -> (Mark, Option<NameRecord>);
        named(space: &str, name: &NewName) -> Option<NameRecord>;
        names(page: &NamePage) -> Vec<NameRecord>;
        count_names(space: Option<&str>) -> HashMap<String, u64>;
        @ names_max(purpose: NamePurpose) -> usize;
    }
    Snapshots {
        confirm(what: &Confirm) -> Confirmed;
        names_without_ordinal(space: &str, reached: Mark, after: Option<&str>, limit: u32) -> Vec<String>;
    }
    Moves {
        moved_rows(page: &RowsPage) -> Rows;
        begin_import(space: &MovedSpace) -> Created;
        import_rows(space: &str, importing: &str, rows: &[MovedRow], floor: &Floor) -> Mark;
        finish_import(space: &MovedSpace, floor: &Floor) -> SpaceRecord;
    }
    Instances {
        heartbeat(pulse: &Pulse) -> Beat;
        instances(page: &InstancePage) -> Vec<InstanceRecord>;
    }
    Tokens {
        tokens(floor: &Floor) -> TokenList;
        replace_tokens(change: &TokenChange, floor: &Floor) -> Option<Mark>;
        record_act(act: &Act) -> ();
        acts(page: &ActPage) -> Vec<Act>;
    }
    Admin {
        identity() -> String;
        secret(candidate: Option<&str>) -> Option<String>;
        forget_secret() -> ();
        check() -> Vec<Finding>;
        migrate() -> Vec<String>;
        @ describe() -> StoreDescription;
        @ floor_file() -> Option<PathBuf>;
    }
    Pools {
        fill(fill: &Fill, floor: &Floor) -> Filled;
        claim(ask: &ClaimAsk, floor: &Floor) -> Claim;
        release(back: &Release, floor: &Floor) -> Mark;
        available(space: &str) -> u64;
        find(at: &KeyRef) -> Option<Found>;
        imported(space: &str, key: &str) -> Option<KeyRef>;
        available_page(page: &AvailablePage) -> Vec<Claimed>;
        @ fill_max() -> u64;
    }
    UseLog {
        note(uses: &Uses, floor: &Floor) -> Noted;
        retire(retire: &Retire, floor: &Floor) -> (Mark, UsedKey);
        used_page(page: &UsedPage) -> Vec<UsedKey>;
        @ notes_keys() -> bool;
    }
    Digests {
        digest(batch: &DigestBatch, floor: &Floor) -> Digested;
    }
}
