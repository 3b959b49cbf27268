//! The database servers that `backends` has started for this run.

use std::sync::atomic::{AtomicU32, Ordering};

/// The URL of a new, empty store of a kind: on the kind's server, under a name of its own.
///
/// `None` where there is no such server: CI fails then, a developer is told and goes on.
pub(crate) fn new_store(kind: &str) -> Option<String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    store_named(kind, &format!("test_{}_{number}", std::process::id()))
}

/// The URL of a store that all who ask in one run of the tests share, for those that look at nothing but their
/// own keyspaces. Whoever opens it first makes its schema, which takes longer than most tests do. A store that has
/// no schema to make is a new one.
pub(crate) fn shared_store(kind: &str) -> Option<String> {
    if !matches!(kind, "postgres" | "mysql" | "mysql9") {
        return new_store(kind);
    }
    // Under nextest every test is a process, and all of them know their run; otherwise one process is a run.
    let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| std::process::id().to_string());
    store_named(kind, &format!("test_shared_{}", run.replace('-', "")))
}

fn store_named(kind: &str, name: &str) -> Option<String> {
    let variable = format!("KEYMILL_TEST_{}", kind.to_uppercase());
    let Ok(server) = std::env::var(&variable) else {
        let is_set = |name: &str| std::env::var(name).is_ok_and(|value| value == "true");
        // Of this one `./test` says that it could not be fetched.
        let excused = kind == "mysql9" && is_set("KEYMILL_TEST_WITHOUT_MYSQL9");
        assert!(!is_set("CI") || excused, "{variable} is not set, and CI must test on every store");
        eprintln!("\n*** NOT TESTED: {variable} is not set; see CONTRIBUTING.md ***\n");
        return None;
    };
    Some(match kind {
        "postgres" => format!("{server}?schema={name}"),
        "redis" => format!("{server}?prefix={name}"),
        // MySQL's databases and etcd's keys: the last part of the path.
        _ => format!("{}/{name}", server.rsplit_once('/').expect("it ends with a path").0),
    })
}
