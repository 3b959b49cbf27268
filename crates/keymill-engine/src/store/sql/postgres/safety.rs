//! What is looked at to tell whether a PostgreSQL server is safe to lease from.

use tokio_postgres::SimpleQueryRow;

use crate::store::Finding;

/// What is looked at before a server is used. Replicas that only feed on logical changes are
/// not counted: nobody fails over to them.
pub(super) const SETTINGS: &str = "SELECT pg_is_in_recovery(), current_setting('fsync'),
    current_setting('full_page_writes'), current_setting('synchronous_commit'),
    current_setting('synchronous_standby_names'),
    (SELECT count(*) FROM pg_stat_replication
        WHERE state IS DISTINCT FROM 'backup' AND pid NOT IN (SELECT active_pid
            FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL)),
    current_setting('server_version')";

/// From a row of `SETTINGS`.
pub(super) fn findings(row: &SimpleQueryRow) -> Vec<Finding> {
    let text = |column: usize| row.get(column).unwrap_or_default();
    let recovering = text(0) == "t";
    let (fsync, pages, commit, standbys) = (text(1), text(2), text(3), text(4).trim());
    let replicas: u64 = text(5).parse().unwrap_or_default();
    let role = if recovering { "a standby" } else { "the primary" };
    let none_synchronous = replicas > 0 && standbys.is_empty();
    let replication = match (standbys, replicas) {
        ("", 0) => "no replica".to_owned(),
        ("", count) => format!("{count} replicas, none synchronous"),
        (names, count) => format!("{count} replicas, synchronous: {names}"),
    };
    let safe_commit = ["on", "remote_apply"].contains(&commit);
    vec![
        Finding::new("server", text(6), "11 or later", true),
        Finding::new("role", role, "the primary", !recovering),
        Finding::new("fsync", fsync, "on", fsync == "on"),
        Finding::new("full_page_writes", pages, "on", pages == "on"),
        Finding::new("synchronous_commit", commit, "on or remote_apply", safe_commit),
        Finding::new(
            "replication",
            &replication,
            "no replica, or a synchronous one (synchronous_standby_names)",
            !none_synchronous,
        ),
    ]
}
