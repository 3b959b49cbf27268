//! Every statement on the tables of a store, each written once.
//!
//! What the dialects say in other words is in braces (see `statement`); the words are in the `dialect` of
//! each driver. `{primary}` and its like are MySQL's `FORCE INDEX`, which fixes what is locked and in which
//! order: a plan that looked at other rows on the way would wait for them, and they for it.

use super::statement::{Statement, There};

/// A constant for each statement: its name, how it is made (see [`Statement`]), and of what.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $how:ident($($part:expr),*);)*) => {
        $($(#[$doc])* pub(super) static $name: Statement = Statement::$how($($part),*);)*
    };
}

statements! {
    // Spaces.

    SPACE = new("SELECT {space} FROM spaces WHERE name = $1");
    SPACE_LOCK = new("SELECT {space} FROM spaces WHERE name = $1 {lock}");
    SPACES = new("SELECT {space} FROM spaces ORDER BY name");
    SPACES_OF = list("SELECT {space} FROM spaces {primary}", "", "name", "ORDER BY name");
    /// In the order of their names, as all do that lock several.
    SPACES_LOCK = list("SELECT {space} FROM spaces {primary}", "", "name", "ORDER BY name {lock}");
    MARKS = new("SELECT name, next, revision FROM spaces ORDER BY name");
    SPACE_MAKE = insert(
        "spaces", "returned = '[]', revision = 1, created_at = {now}",
        "name, definition, tuning, fingerprint, capacity, next", There::Stays
    );
    SPACE_MOVE = new(
        "UPDATE spaces SET next = $2, revision = $3, returned = $4, base = $5 WHERE name = $1"
    );
    /// Of spaces that took something back.
    SPACES_MOVE = update("spaces", "", "name", "revision, returned");
    SPACE_STEP = new("UPDATE spaces SET revision = revision + 1 WHERE name = $1");
    SPACE_TUNE = new("UPDATE spaces SET tuning = $2, revision = revision + 1 WHERE name = $1");
    SPACE_DEFINE = new("UPDATE spaces SET definition = $2, capacity = $3 WHERE name = $1");
    SPACE_SEAL = new(
        "UPDATE spaces SET sealed = TRUE, revision = revision + 1 WHERE name = $1 AND NOT sealed"
    );
    SPACE_IMPORT = insert(
        "spaces", "",
        "name, definition, tuning, fingerprint, capacity, next, returned, revision, created_at, base, sealed",
        There::Stays
    );
    SPACE_REPLACE = new(
        "UPDATE spaces SET definition = $2, tuning = $3, fingerprint = $4, capacity = $5, next = $6,
        returned = $7, revision = $8, created_at = $9, base = $10, sealed = $11 WHERE name = $1"
    );
    SIGHTINGS = new("SELECT mark FROM sightings WHERE space = $1");
    SIGHTING = new("SELECT mark FROM sightings WHERE space = $1 AND instance = $2");
    SIGHTING_PUT = insert(
        "sightings", "seen_at = {now}", "space, instance, mark",
        There::Becomes("space, instance", "mark, seen_at")
    );
    SIGHTINGS_DROP = new("DELETE FROM sightings WHERE space = $1");

    // Leases.

    LEASE_ADD = new("INSERT INTO leases
        (space, lease, start_ordinal, end_ordinal, purpose, instance, granted_at{and_open_for})
        VALUES ($1, $2, $3, $4, $5, $6, {now}{and_holder})");
    LEASE_CLOSE = new("UPDATE leases SET closed_at_ordinal = coalesce($4, end_ordinal), {closed}
        WHERE space = $1 AND lease = $2 AND instance = $3 AND closed_at IS NULL
        AND coalesce($5, end_ordinal) = end_ordinal");
    LEASES_SPENT = list(
        "UPDATE leases {primary} SET closed_at_ordinal = end_ordinal, {closed}",
        "space = $1 AND instance = $2 AND closed_at IS NULL", "lease", ""
    );
    /// What begins with the rows of spaces touches leases of no other space, so these need no lock.
    LEASES_OPEN = each(
        "SELECT space, lease, instance, end_ordinal FROM leases {primary}", "closed_at IS NULL",
        "space, lease"
    );
    LEASES_CLOSE = update("leases", "{closed}, ", "space, lease", "closed_at_ordinal");
    LEASES_OF = each("SELECT space, lease FROM leases {primary}", "instance = $1", "space, lease");
    LEASE_EXISTS = new("SELECT 1 FROM leases WHERE space = $1 AND lease = $2 AND instance = $3");
    LEASE_REACHES = new(
        "SELECT 1 FROM leases WHERE space = $1 AND lease = $2 AND instance = $3 AND end_ordinal >= $4"
    );
    LEASE_START = new(
        "SELECT start_ordinal FROM leases WHERE space = $1 AND lease = $2 AND instance = $3"
    );
    LEASE_EXTEND = new("UPDATE leases SET end_ordinal = $4
        WHERE space = $1 AND lease = $2 AND instance = $3 AND closed_at IS NULL");
    LEASE_OF = new("SELECT {lease} FROM leases JOIN instances ON id = instance
        WHERE space = $1 AND start_ordinal <= $2 AND coalesce(closed_at_ordinal, end_ordinal) > $2
        ORDER BY start_ordinal DESC, lease DESC LIMIT 1");
    LEASE_PAGE = new("SELECT {lease} FROM leases JOIN instances ON id = instance
        WHERE ($1 IS NULL OR space = $1) AND {after_lease} ORDER BY space, lease LIMIT $4");
    HELD_ELSEWHERE = new(
        "SELECT CAST(coalesce(sum(end_ordinal - start_ordinal), 0) AS {integer}) FROM leases
        WHERE space = $1 AND {open_elsewhere} AND purpose = 'lease'"
    );
    WORKER = new("SELECT worker, lease, ends FROM workers WHERE space = $1 AND worker = $2");
    WORKERS = new("SELECT worker, lease, ends FROM workers WHERE space = $1");
    WORKER_PUT = insert(
        "workers", "", "space, worker, instance, lease, ends",
        There::Becomes("space, worker", "instance, lease, ends")
    );
    WORKER_END = new("UPDATE workers SET ends = $3 WHERE space = $1 AND worker = $2");

    // Instances, and the secret.

    INSTANCE_KNOW = insert(
        "instances", "seen_at = {now}", "id, host, pid, version, started_at", There::Stays
    );
    INSTANCE_SEEN = new("UPDATE instances SET address = coalesce($2, address), seen_at = {now},
        stopped_at = CASE WHEN $3 THEN {now} END WHERE id = $1");
    INSTANCE_PAGE = new("SELECT id, host, pid, version, started_at, address, seen_at, stopped_at
        FROM instances WHERE $1 IS NULL
        OR (started_at, id) > (SELECT started_at, id FROM instances WHERE id = $1)
        ORDER BY started_at, id LIMIT $2");
    SECRET = new("SELECT secret FROM secret");
    SECRET_MAKE = insert("secret", "id = 1, created_at = {now}", "secret", There::Stays);
    SECRET_FORGET = new("DELETE FROM secret");

    // The token list, in the one row of its table, and acts.

    TOKENS_LOOK = new("SELECT revision, document FROM tokens WHERE id = 1");
    TOKENS_LOCK = new("SELECT revision, document FROM tokens WHERE id = 1 {lock}");
    TOKENS_PUT = new("UPDATE tokens SET revision = $1, document = $2 WHERE id = 1");
    ACT_COUNT = new("UPDATE tokens SET acts_made = acts_made + 1 WHERE id = 1");
    ACTS_MADE = new("SELECT acts_made FROM tokens WHERE id = 1");
    ACT_ADD = new(
        "INSERT INTO acts (id, acted_at, actor, origin, act) VALUES ($1, $2, $3, $4, $5)"
    );
    ACTS_FORGET = new("DELETE FROM acts WHERE id <= $1");
    ACTS_PAGE = new(
        "SELECT id, acted_at, actor, origin, act FROM acts WHERE id > $1 ORDER BY id LIMIT $2"
    );

    // Names.

    NAME = new("SELECT {name} FROM names WHERE space = $1 AND key = $2");
    NAMES = each("SELECT {name} FROM names", "space = $1", "key");
    NAMES_PUT = insert(
        "names", "space = $1, purpose = $2, owner = $3, created_at = {now}, removed_at = NULL",
        "key, ordinal", There::Becomes("space, key", "purpose, owner, created_at, removed_at")
    );
    /// Of names that nobody has.
    NAMES_ADD = insert(
        "names", "space = $1, purpose = $2, owner = $3, created_at = {now}", "key", There::Never
    );
    NAME_REMOVE = new("UPDATE names SET removed_at = {now} WHERE space = $1 AND key = $2");
    /// Of one purpose, without those that were removed, and with them; and of pools and digests, which cannot
    /// be removed.
    NAMES_KEPT = new("SELECT {name} FROM names {by_kept} WHERE {of_listed}
        space = $1 AND purpose = $2 AND key > $3 AND removed_at IS NULL ORDER BY key LIMIT $4");
    NAMES_LISTED = new("SELECT {name} FROM {names_listed} ORDER BY key LIMIT $4");
    NAMES_MADE = new("SELECT {name} FROM names {by_purpose}
        WHERE space = $1 AND purpose = $2 AND key > $3 {not_removed} ORDER BY key LIMIT $4");
    /// The index by ordinal lists names without one by key.
    NAMES_WITHOUT_ORDINAL = new("SELECT key FROM names WHERE space = $1 AND ordinal IS NULL AND key > $2
        ORDER BY key LIMIT $3");
    IMPORTED = new("SELECT imported_at FROM imported WHERE space = $1 AND ordinal = $2");
    IMPORTED_AMONG = each("SELECT ordinal FROM imported", "space = $1", "ordinal");
    IMPORTED_ADD = insert("imported", "space = $1, imported_at = {now}", "ordinal", There::Never);
    SKIPS = new("SELECT ordinal FROM names WHERE space = $1 AND ordinal >= $2 AND ordinal < $3
        UNION SELECT ordinal FROM imported WHERE space = $1 AND ordinal >= $2 AND ordinal < $3
        ORDER BY ordinal");
    NAME_COUNTS = new("SELECT space, count(*) FROM names WHERE removed_at IS NULL GROUP BY space
        UNION ALL SELECT space, count(*) FROM imported GROUP BY space");
    NAME_COUNTS_OF = new("SELECT count(*) FROM names WHERE space = $1 AND removed_at IS NULL
        UNION ALL SELECT count(*) FROM imported WHERE space = $1");

    // Pools and used keys.

    /// How many keys are available, and the time.
    POOL = new("SELECT coalesce((SELECT available FROM pools WHERE space = $1), 0), {now}");
    POOL_ADD = insert("pools", "", "space, available", There::Adds("space", "available"));
    POOL_DROP = new("UPDATE pools SET available = 0 WHERE space = $1");
    POOL_NAME = new("SELECT id FROM pool_names WHERE space = $1 AND key = $2");
    POOL_NAMES_PUT = insert(
        "pool_names", "space = $1", "id, key", There::Becomes("space, key", "id")
    );
    KEYS_ADD = insert("available_keys", "space = $1", "id, key", There::Never);
    EXPIRED = new("SELECT id, key FROM available_keys {by_reservation}
        WHERE space = $1 AND reserved_at <= $2 AND id >= $3
        ORDER BY reserved_at LIMIT $4 {skip_locked}");
    FRESH = new("SELECT id, key FROM available_keys {primary}
        WHERE space = $1 AND id >= $2 AND reserved_by IS NULL ORDER BY id LIMIT $3 {skip_locked}");
    FRESH_PAGE = new("SELECT id, key FROM available_keys {primary}
        WHERE space = $1 AND id >= $2 AND reserved_by IS NULL ORDER BY id LIMIT $3");
    RESERVE = list(
        "UPDATE available_keys {primary} SET reserved_by = $2, reserved_at = $3", "space = $1",
        "id", ""
    );
    UNRESERVE = list(
        "UPDATE available_keys {primary} SET reserved_by = NULL, reserved_at = NULL",
        "space = $1 AND reserved_by = $2", "id", ""
    );
    KEYS_REMOVE = list("DELETE {gone} FROM available_keys {as_gone}", "space = $1", "id", "");
    RESERVED_REMOVE = removal("available_keys", "space = $1 AND reserved_by = $2", "id", "id");
    KEY_REMOVE = new("DELETE FROM available_keys WHERE space = $1 AND id = $2 AND key = $3");
    KEY_REMOVE_FRESH = new("DELETE FROM available_keys
        WHERE space = $1 AND id = $2 AND key = $3 AND reserved_by IS NULL");
    /// Both tables in one statement, so that a key on its way from one to the other is found.
    FOUND = new("SELECT {used}, 1 FROM used_keys WHERE space = $1 AND id = $2 AND key = $3
        UNION ALL SELECT id, key, reserved_at, NULL, reserved_by, NULL, NULL, 0
        FROM available_keys WHERE space = $1 AND id = $2 AND key = $3");
    /// The life of a key begins with its use.
    USED_ADD = insert(
        "used_keys", "space = $1, instance = $2, used_at = {now}, expires_at = {now} + $3",
        "id, key, caller", There::Found
    );
    USED_TAKE_BACK = removal(
        "used_keys", "space = $1 AND instance = $2 AND retired_at IS NULL", "id", "id, key"
    );
    USED_RETIRE = insert(
        "used_keys", "caller = '', retired_at = {now}", "space, id, key, used_at, instance",
        There::Completes("space, id", "retired_at")
    );
    USED = new("SELECT {used} FROM used_keys WHERE space = $1 AND id = $2");
    USED_AMONG = each("SELECT id FROM used_keys {primary}", "space = $1", "id");
    USED_PAGE = new("SELECT {used} FROM used_keys {by_time}
        WHERE space = $1 AND {after_use} AND used_at < $4 ORDER BY used_at, id LIMIT $5");
    USED_PAGE_OF = new("SELECT {used} FROM used_keys {by_caller}
        WHERE space = $1 AND {after_use} AND used_at < $4 AND caller = $6 AND caller <> ''
        ORDER BY used_at, id LIMIT $5");

    // Digests.

    DIGEST = new("SELECT 1 FROM digests WHERE space = $1 AND input = $2 AND key = $3");
    DIGESTS = each("SELECT input, key FROM digests", "space = $1", "input");
    DIGESTS_ADD = insert("digests", "space = $1, created_at = {now}", "input, key", There::Never);

    // A keyspace that is moved, page by page in the order of its tables.

    LEASES_MOVED = new(
        "SELECT {lease} FROM leases {primary} {straight_join} instances ON id = instance
        WHERE space = $1 AND lease > $2 ORDER BY lease LIMIT $3"
    );
    WORKERS_MOVED = new("SELECT worker, instance, lease, ends FROM workers
        WHERE space = $1 AND worker > $2 ORDER BY worker LIMIT $3");
    NAMES_MOVED = new(
        "SELECT {name} FROM names {primary} WHERE space = $1 AND key > $2 ORDER BY key LIMIT $3"
    );
    IN_USE_MOVED = new("SELECT ordinal, imported_at FROM imported
        WHERE space = $1 AND ordinal > $2 ORDER BY ordinal LIMIT $3");
    POOL_NAMES_MOVED = new(
        "SELECT key, id FROM pool_names WHERE space = $1 AND key > $2 ORDER BY key LIMIT $3"
    );
    AVAILABLE_MOVED = new("SELECT id, key FROM available_keys {primary}
        WHERE space = $1 AND id > $2 ORDER BY id LIMIT $3");
    USED_MOVED = new(
        "SELECT {used} FROM used_keys {primary} WHERE space = $1 AND id > $2 ORDER BY id LIMIT $3"
    );
    DIGESTS_MOVED = new("SELECT input, key, created_at FROM digests
        WHERE space = $1 AND input > $2 ORDER BY input LIMIT $3");
    INSTANCES_IMPORT = insert(
        "instances", "", "id, host, pid, version, started_at, seen_at", There::Stays
    );
    LEASES_IMPORT = insert(
        "leases", "space = $1",
        "lease, start_ordinal, end_ordinal, closed_at_ordinal, purpose, instance, granted_at, closed_at, {open_for}",
        There::Stays
    );
    WORKERS_IMPORT = insert("workers", "space = $1", "worker, instance, lease, ends", There::Stays);
    NAMES_IMPORT = insert(
        "names", "space = $1", "key, ordinal, purpose, owner, created_at, removed_at", There::Stays
    );
    IN_USE_IMPORT = insert("imported", "space = $1", "ordinal, imported_at", There::Stays);
    POOL_NAMES_IMPORT = insert("pool_names", "space = $1", "key, id", There::Stays);
    AVAILABLE_IMPORT = insert("available_keys", "space = $1", "id, key", There::Stays);
    USED_IMPORT = insert(
        "used_keys", "space = $1", "id, key, used_at, caller, instance, expires_at, retired_at",
        There::Stays
    );
    DIGESTS_IMPORT = insert("digests", "space = $1", "input, key, created_at", There::Stays);
}
