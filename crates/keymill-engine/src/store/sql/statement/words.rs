//! The words that a statement may have in braces.

/// The columns of records, in the order in which `rows` reads them.
const COLUMNS: [(&str, &str); 4] = [
    (
        "space",
        "name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
        returned, base",
    ),
    (
        "lease",
        "space, lease, start_ordinal, end_ordinal, closed_at_ordinal, purpose, granted_at,
        closed_at, id, host, pid, version, started_at",
    ),
    ("name", "space, key, ordinal, purpose, owner, created_at, removed_at"),
    ("used", "id, key, used_at, caller, instance, expires_at, retired_at"),
];

macro_rules! words {
    ($($word:ident)*) => {
        /// What a dialect says for each word. A word may use others, and parameters.
        #[derive(Debug)]
        pub(in crate::store::sql) struct Words {
            $(pub(in crate::store::sql) $word: &'static str,)*
        }

        impl Words {
            /// Nothing, for any of them: a dialect names what it has a word for.
            pub(in crate::store::sql) const NONE: Words = Words { $($word: "",)* };

            /// What a word stands for; `None` for one that is not known.
            pub(super) fn get(&self, word: &str) -> Option<&'static str> {
                match word {
                    $(stringify!($word) => Some(self.$word),)*
                    _ => COLUMNS.iter().find(|(name, _)| *name == word).map(|(_, text)| *text),
                }
            }
        }
    };
}

words! {
    now integer lock skip_locked straight_join
    // Which index is read.
    primary by_reservation by_time by_caller by_purpose by_kept
    // A deletion that names its index.
    gone as_gone
    // Leases that are open.
    open_for and_open_for and_holder open_elsewhere closed
    // What a page begins after.
    after_lease after_use
    // Lists of names.
    of_listed not_removed names_listed
}
