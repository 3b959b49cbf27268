//! The words of MySQL and MariaDB, where statements leave them open.

use crate::store::sql::statement::{Dialect, Lists, Placeholders, Statement, Words};

pub(super) static DIALECT: Dialect = Dialect {
    number: 1,
    placeholders: Placeholders::Bare,
    lists: Lists::Literals,
    words: Words {
        now: "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
        integer: "SIGNED",
        lock: "FOR UPDATE",
        skip_locked: "FOR UPDATE SKIP LOCKED",
        primary: "FORCE INDEX (PRIMARY)",
        by_reservation: "FORCE INDEX (available_keys_reserved)",
        by_time: "FORCE INDEX (used_keys_by_time)",
        by_caller: "FORCE INDEX (used_keys_by_caller)",
        by_purpose: "FORCE INDEX (names_by_purpose)",
        by_kept: "{by_purpose}",
        straight_join: "STRAIGHT_JOIN",
        // A plain DELETE takes no FORCE INDEX.
        gone: "gone",
        as_gone: "AS gone FORCE INDEX (PRIMARY)",
        // The holder while a lease is open, so that open leases can be found by an index.
        open_for: "open_for",
        and_open_for: ", open_for",
        and_holder: ", $6",
        open_elsewhere: "open_for <> $2",
        closed: "open_for = NULL, closed_at = {now}",
        // Pairs are not compared by an index.
        after_lease: "(space > $2 OR (space = $2 AND lease > $3))",
        after_use: "(used_at > $2 OR (used_at = $2 AND id > $3)) AND used_at >= $2",
        names_listed: "names {by_purpose} WHERE space = $1 AND purpose = $2 AND key > $3",
        ..Words::NONE
    },
};

/// By UTC: the time zone of the session may have an hour that comes twice.
pub(super) static CLOCK: Statement = Statement::new(
    "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000",
);
