//! The words of PostgreSQL, where statements leave them open. Which index is read follows from the settings of
//! a transaction (`begin`).

use crate::store::sql::statement::{Dialect, Lists, Placeholders, Words};

/// The clock that windows are granted by, rounded down.
pub(super) const CLOCK: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

pub(super) static DIALECT: Dialect = Dialect {
    number: 0,
    placeholders: Placeholders::Dollar,
    lists: Lists::Arrays,
    words: Words {
        // Not the time at which the transaction began, and the same wherever a statement asks for it.
        now: "(extract(epoch FROM statement_timestamp()) * 1000)::bigint",
        integer: "bigint",
        lock: "FOR UPDATE",
        skip_locked: "FOR UPDATE SKIP LOCKED",
        straight_join: "JOIN",
        // An index of its own lists the leases that are open.
        open_elsewhere: "instance <> $2 AND closed_at IS NULL",
        closed: "closed_at = {now}",
        after_lease: "(space, lease) > ($2, $3)",
        after_use: "(used_at, id) > ($2, $3)",
        not_removed: "AND removed_at IS NULL",
        // Two indexes, each read in its order as far as it is needed.
        names_listed: "((SELECT {name} FROM names
            WHERE space = $1 AND purpose = $2 AND key > $3 AND removed_at IS NULL
            ORDER BY key LIMIT $4)
            UNION ALL (SELECT {name} FROM names
            WHERE space = $1 AND purpose = $2 AND key > $3 AND removed_at IS NOT NULL
            ORDER BY key LIMIT $4)) AS page",
        ..Words::NONE
    },
};
