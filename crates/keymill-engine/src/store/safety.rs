//! Findings: what was looked at to tell whether a store is safe to lease from.

use serde::{Deserialize, Serialize};

use super::StoreError;

/// One line of `keymill store check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was looked at.
    pub setting: String,
    /// Its value.
    pub found: String,
    /// What it should be.
    pub wanted: String,
    /// Whether that is safe.
    pub verdict: Verdict,
}

/// Whether a setting is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Safe,
    /// Works, but a failure may cost more than it should.
    Warning,
    /// A failure may cost a repeated key.
    Unsafe,
}

impl Finding {
    /// A setting that is safe, or makes the store unsafe.
    pub fn new(setting: &str, found: &str, wanted: &str, safe: bool) -> Finding {
        Finding {
            setting: setting.to_owned(),
            found: found.to_owned(),
            wanted: wanted.to_owned(),
            verdict: if safe { Verdict::Safe } else { Verdict::Unsafe },
        }
    }

    /// The same, as a warning where it made the store unsafe.
    pub fn warning(mut self) -> Finding {
        if self.verdict == Verdict::Unsafe {
            self.verdict = Verdict::Warning;
        }
        self
    }

    /// What is found and what should be.
    pub fn in_words(&self) -> String {
        format!("{} is {}, should be {}", self.setting, self.found, self.wanted)
    }

    /// What makes a store unsafe, in words; `None` where nothing does.
    pub fn unsafe_ones(findings: &[Finding]) -> Option<String> {
        let unsafe_ones: Vec<String> = findings
            .iter()
            .filter(|it| it.verdict == Verdict::Unsafe)
            .map(Finding::in_words)
            .collect();
        (!unsafe_ones.is_empty()).then(|| unsafe_ones.join("; "))
    }
}

/// Refuses a store that may lose what it has granted, unless that is allowed. Returns what is unsafe
/// about one that is, and writes what else should be changed to the log.
pub fn check_safety(findings: &[Finding], allow: bool) -> Result<Option<String>, StoreError> {
    for finding in findings.iter().filter(|finding| finding.verdict == Verdict::Warning) {
        tracing::warn!("{}", finding.in_words());
    }
    match Finding::unsafe_ones(findings) {
        Some(reasons) if !allow => Err(StoreError::unsafe_store(&reasons)),
        reasons => Ok(reasons),
    }
}
