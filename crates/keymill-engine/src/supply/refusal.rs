//! A refusal: what it means for those who wait, and for the log, when the store grants nothing.
//!
//! The supply tasks of leases and windows call it. It decides nothing about sizes.

use std::mem::discriminant;

use tokio::time::Instant;

use super::progress::SharedProgress;
use super::retry::Retry;
use crate::source::numbers::Numbers;
use crate::source::outlook::Outlook;
use crate::store::StoreError;

/// Turns a refusal into the outlook of a source, and the time of the next try.
pub(crate) fn tell(
    space: &str,
    source: Numbers<'_>,
    progress: &SharedProgress,
    error: &StoreError,
    now: Instant,
    retry: &mut Retry,
) {
    let before = source.queue().outlook();
    let outlook = match error {
        StoreError::Exhausted { held_elsewhere, .. } => {
            Outlook::Exhausted { held_elsewhere: *held_elsewhere }
        }
        StoreError::Sealed(_) => Outlook::Sealed,
        StoreError::NoWorker { .. } => {
            retry.again(now, false);
            Outlook::NoWorker(error.to_string())
        }
        StoreError::RolledBack(how) => Outlook::RolledBack(how.clone()),
        error => {
            let doubted = matches!(error, StoreError::InDoubt(_));
            progress.change(|progress| progress.burned += u64::from(doubted));
            retry.again(now, doubted);
            Outlook::Unreachable(error.to_string())
        }
    };
    // Told once: the wording may differ from one refusal to the next.
    if discriminant(&*before) != discriminant(&outlook) {
        match &outlook {
            Outlook::RolledBack(how) => {
                tracing::error!(space, code = "store_rolled_back", "{how}");
            }
            Outlook::Exhausted { .. } | Outlook::Sealed | Outlook::NoWorker(_) => {
                tracing::warn!(space, "{error}");
            }
            _ => tracing::warn!(
                space,
                left = source.left(),
                "could not lease keys: {error}; serving the keys in memory and trying again"
            ),
        }
    }
    source.queue().set_outlook(outlook);
}
