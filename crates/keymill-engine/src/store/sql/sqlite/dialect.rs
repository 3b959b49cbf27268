//! The words of SQLite, where statements leave them open. A transaction that changes anything has the whole
//! file to itself, so nothing is locked.

use crate::store::sql::statement::{Dialect, Lists, Placeholders, Statement, Words};

pub(super) static DIALECT: Dialect = Dialect {
    number: 2,
    placeholders: Placeholders::Numbered,
    lists: Lists::OneByOne,
    words: Words {
        // A parameter: SQLite has no clock of its own.
        now: "$now",
        integer: "INTEGER",
        straight_join: "JOIN",
        // An index of its own lists the leases that are open.
        open_elsewhere: "instance <> $2 AND closed_at IS NULL",
        closed: "closed_at = {now}",
        after_lease: "(space, lease) > ($2, $3)",
        after_use: "(used_at, id) > ($2, $3)",
        // Lists of names have an index each, which is named: the planner would rather read every name of the
        // space in the table itself. Names of pools and digests have none.
        by_kept: "INDEXED BY names_kept",
        of_listed: "purpose IN ('alias', 'used') AND",
        names_listed: "names INDEXED BY names_listed WHERE {of_listed}
            space = $1 AND purpose = $2 AND key > $3",
        ..Words::NONE
    },
};

pub(super) static IDENTITY: Statement = Statement::new("SELECT identity FROM store");
