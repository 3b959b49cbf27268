//! TLS in figures: until when the certificate is valid, and what has failed.
//!
//! `server` notes it; `/metrics` and the details of `/readyz` tell it. None of it keeps an instance from serving.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use keymill_engine::operations::Problem;

/// How long before its end a certificate is a problem.
const EXPIRY_NOTICE: SignedDuration = SignedDuration::from_hours(14 * 24);
/// The end of a certificate that is not known.
const UNKNOWN: i64 = i64::MAX;

/// What is known of TLS.
#[derive(Debug)]
pub struct TlsFigures {
    handshakes_refused: AtomicU64,
    reload_failures: AtomicU64,
    /// Whether the last attempt to reload has failed.
    is_reload_failed: AtomicBool,
    /// The end of the certificate in use, in seconds since 1970.
    not_after: AtomicI64,
}

impl TlsFigures {
    /// Counts a handshake that has failed.
    pub fn count_refused(&self) {
        self.handshakes_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes the end of the certificate that is in use from now on.
    pub fn note_loaded(&self, not_after: Option<Timestamp>) {
        let end = not_after.map_or(UNKNOWN, Timestamp::as_second);
        self.not_after.store(end, Ordering::Relaxed);
        self.is_reload_failed.store(false, Ordering::Relaxed);
    }

    /// Counts certificates that could not be reloaded.
    pub fn note_reload_failure(&self) {
        self.reload_failures.fetch_add(1, Ordering::Relaxed);
        self.is_reload_failed.store(true, Ordering::Relaxed);
    }

    /// Handshakes that have failed.
    pub fn handshakes_refused(&self) -> u64 {
        self.handshakes_refused.load(Ordering::Relaxed)
    }

    /// Attempts to reload that have failed.
    pub fn reload_failures(&self) -> u64 {
        self.reload_failures.load(Ordering::Relaxed)
    }

    /// The end of the certificate in use, in seconds since 1970.
    pub fn not_after(&self) -> Option<i64> {
        Some(self.not_after.load(Ordering::Relaxed)).filter(|end| *end != UNKNOWN)
    }

    /// What is wrong at present. Files are not named: the log has them.
    pub fn problems(&self) -> Vec<Problem> {
        let not_after = self.not_after().and_then(|end| Timestamp::from_second(end).ok());
        let expiry = not_after.and_then(|end| expiry(end, Timestamp::now()));
        let is_failed = self.is_reload_failed.load(Ordering::Relaxed);
        let failed = is_failed.then(|| {
            let detail = "the TLS certificate could not be reloaded, and the one that was read before stays in \
                          use; see the log of this instance";
            ("tls_reload_failed", detail.to_owned())
        });
        let problem = |(code, detail)| Problem { code, space: None, detail };
        expiry.into_iter().chain(failed).map(problem).collect()
    }
}

impl Default for TlsFigures {
    fn default() -> TlsFigures {
        TlsFigures {
            handshakes_refused: AtomicU64::new(0),
            reload_failures: AtomicU64::new(0),
            is_reload_failed: AtomicBool::new(false),
            not_after: AtomicI64::new(UNKNOWN),
        }
    }
}

/// The code and the description of a certificate that has ended, or ends soon.
pub fn expiry(not_after: Timestamp, now: Timestamp) -> Option<(&'static str, String)> {
    let left = not_after.duration_since(now);
    if left <= SignedDuration::ZERO {
        let detail =
            format!("the TLS certificate expired on {not_after}: clients refuse it; replace it");
        return Some(("tls_certificate_expired", detail));
    }
    if left > EXPIRY_NOTICE {
        return None;
    }
    let days = left.as_hours() / 24;
    let detail =
        format!("the TLS certificate expires on {not_after}, in {days} days; replace it before");
    Some(("tls_certificate_expires", detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_a_problem_two_weeks_before_its_end() {
        let now: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        for (days, expected) in [
            (-1, Some("tls_certificate_expired")),
            (0, Some("tls_certificate_expired")),
            (1, Some("tls_certificate_expires")),
            (14, Some("tls_certificate_expires")),
            (15, None),
        ] {
            let end = now + SignedDuration::from_hours(days * 24);
            assert_eq!(expiry(end, now).map(|it| it.0), expected, "{days}");
        }
    }

    #[test]
    fn a_failed_reload_is_a_problem_until_one_works() {
        let figures = TlsFigures::default();
        assert!(figures.problems().is_empty() && figures.not_after().is_none());
        figures.note_reload_failure();
        figures.note_reload_failure();
        let codes: Vec<&str> = figures.problems().iter().map(|it| it.code).collect();
        assert_eq!((codes, figures.reload_failures()), (vec!["tls_reload_failed"], 2));
        figures.note_loaded(Some(Timestamp::UNIX_EPOCH));
        let codes: Vec<&str> = figures.problems().iter().map(|it| it.code).collect();
        assert_eq!((codes, figures.not_after()), (vec!["tls_certificate_expired"], Some(0)));
    }
}
