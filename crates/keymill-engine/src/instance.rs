//! An instance: one running keymill process, as the store and people know it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Who holds a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// A random ID: a process that is restarted is another instance.
    pub id: String,
    /// The machine it runs on.
    pub host: String,
    /// Its process ID there.
    pub pid: u32,
    /// The version of keymill.
    pub version: String,
    /// When it started.
    pub started_at: Timestamp,
}

impl Instance {
    /// This process.
    pub fn this_process() -> Instance {
        let mut bytes = [0_u8; 6];
        getrandom::fill(&mut bytes).expect("the system has a source of randomness");
        Instance {
            id: hex::encode(bytes),
            host: hostname::get()
                .map_or_else(|_| "unknown".to_owned(), |host| host.to_string_lossy().into_owned()),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: Timestamp::now(),
        }
    }
}
