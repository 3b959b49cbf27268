//! The words of PostgreSQL, where statements leave them open.

use crate::store::sql::statement::{Dialect, Lists, Placeholders};
use crate::store::sql::statements::COLUMNS;

/// The clock that windows are granted by, rounded down.
pub(super) const CLOCK: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

pub(super) static DIALECT: Dialect = Dialect {
    number: 0,
    placeholders: Placeholders::Dollar,
    lists: Lists::Arrays,
    columns: COLUMNS,
    words: &[
        // Not the time at which the transaction began.
        ("now", "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"),
        ("integer", "bigint"),
        ("lock", "FOR UPDATE"),
        ("skip_locked", "FOR UPDATE SKIP LOCKED"),
        // Which index is read follows from the settings of a transaction.
        ("primary", ""),
        ("by_reservation", ""),
        ("by_time", ""),
        ("by_caller", ""),
        ("straight_join", "JOIN"),
        ("gone", ""),
        ("as_gone", ""),
        // An index of its own lists the leases that are open.
        ("open_for", ""),
        ("and_open_for", ""),
        ("and_holder", ""),
        ("open_elsewhere", "instance <> $2 AND closed_at IS NULL"),
        ("closed", "closed_at = {now}"),
        ("after_lease", "(space, lease) > ($2, $3)"),
        ("after_use", "(used_at, id) > ($2, $3)"),
        (
            "names_kept",
            "SELECT {name} FROM names
            WHERE space = $1 AND purpose = $2 AND key > $3 AND removed_at IS NULL
            ORDER BY key LIMIT $4",
        ),
        // Two indexes, each read in its order as far as it is needed.
        (
            "names_listed",
            "SELECT * FROM ((SELECT {name} FROM names
            WHERE space = $1 AND purpose = $2 AND key > $3 AND removed_at IS NULL
            ORDER BY key LIMIT $4)
            UNION ALL (SELECT {name} FROM names
            WHERE space = $1 AND purpose = $2 AND key > $3 AND removed_at IS NOT NULL
            ORDER BY key LIMIT $4)) AS page ORDER BY key LIMIT $4",
        ),
        ("names_made", "{names_kept}"),
    ],
};
