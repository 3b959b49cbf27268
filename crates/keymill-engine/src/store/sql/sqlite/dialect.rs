//! The words of SQLite, where statements leave them open.

use crate::store::sql::statement::{Dialect, Lists, Placeholders, Statement};
use crate::store::sql::statements::COLUMNS;

pub(super) static DIALECT: Dialect = Dialect {
    number: 2,
    placeholders: Placeholders::Numbered,
    lists: Lists::OneByOne,
    columns: COLUMNS,
    words: &[
        // A parameter: SQLite has no clock of its own.
        ("now", "$now"),
        ("integer", "INTEGER"),
        // A transaction that changes anything has the whole file to itself.
        ("lock", ""),
        ("skip_locked", ""),
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
        // Each names its index: the planner would rather read every name of the space in the table itself.
        (
            "names_kept",
            "SELECT {name} FROM names INDEXED BY names_kept
            WHERE purpose IN ('alias', 'used') AND removed_at IS NULL
            AND space = $1 AND purpose = $2 AND key > $3 ORDER BY key LIMIT $4",
        ),
        (
            "names_listed",
            "SELECT {name} FROM names INDEXED BY names_listed
            WHERE purpose IN ('alias', 'used')
            AND space = $1 AND purpose = $2 AND key > $3 ORDER BY key LIMIT $4",
        ),
        // These have no index of their own.
        (
            "names_made",
            "SELECT {name} FROM names
            WHERE space = $1 AND purpose = $2 AND key > $3 ORDER BY key LIMIT $4",
        ),
    ],
};

pub(super) static IDENTITY: Statement = Statement::new("SELECT identity FROM store");
