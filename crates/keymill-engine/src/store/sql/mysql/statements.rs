//! The statements that make, read and move spaces, leases, names and instances.

/// Milliseconds since 1970, by the server's clock.
macro_rules! now {
    () => {
        "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)"
    };
}
pub(super) use now;

pub(super) const SPACE: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces WHERE name = :space";
pub(super) const SPACE_LOCK: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces WHERE name = :space FOR UPDATE";
pub(super) const SPACES: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces ORDER BY name";
/// Lacks the names. By these alone: a plan that looked at other rows would wait for them.
pub(super) const SPACES_AMONG: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces FORCE INDEX (PRIMARY) WHERE name";
pub(super) const SPACE_MAKE: &str = concat!(
    "INSERT INTO spaces
    (name, definition, tuning, fingerprint, capacity, next, returned, revision, created_at)
    VALUES (:space, :definition, :tuning, :fingerprint, :capacity, :start, '[]', 1, ",
    now!(),
    ") ON DUPLICATE KEY UPDATE name = name"
);
/// The time, in the text of a statement.
pub(super) const NOW: &str = now!();
pub(super) const SPACE_MOVE: &str = "UPDATE spaces
    SET next = :next, revision = :revision, returned = :returned, base = :base WHERE name = :space";
pub(super) const SPACE_TUNE: &str =
    "UPDATE spaces SET tuning = :tuning, revision = revision + 1 WHERE name = :space";
pub(super) const SPACE_DEFINE: &str =
    "UPDATE spaces SET definition = :definition, capacity = :capacity WHERE name = :space";
pub(super) const SPACE_SEAL: &str =
    "UPDATE spaces SET sealed = TRUE, revision = revision + 1 WHERE name = :space AND NOT sealed";
pub(super) const LEASE_ADD: &str = concat!(
    "INSERT INTO leases
    (space, lease, start_ordinal, end_ordinal, purpose, instance, open_for, granted_at)
    VALUES (:space, :lease, :start, :end, :purpose, :instance, :instance, ",
    now!(),
    ")"
);
pub(super) const LEASE_CLOSE: &str = concat!(
    "UPDATE leases SET closed_at_ordinal = COALESCE(:start, end_ordinal), open_for = NULL,
    closed_at = ",
    now!(),
    " WHERE space = :space AND lease = :lease AND instance = :instance AND closed_at IS NULL
    AND COALESCE(:end, end_ordinal) = end_ordinal"
);
pub(super) const LEASE_EXISTS: &str =
    "SELECT 1 FROM leases WHERE space = :space AND lease = :lease AND instance = :instance";
pub(super) const LEASE_OF: &str =
    "SELECT space, lease, start_ordinal, end_ordinal, closed_at_ordinal, purpose,
    granted_at, closed_at, id, host, pid, version, started_at
    FROM leases JOIN instances ON id = instance WHERE space = :space AND start_ordinal <= :ordinal
    AND COALESCE(closed_at_ordinal, end_ordinal) > :ordinal ORDER BY start_ordinal DESC, lease DESC LIMIT 1";
pub(super) const LEASE_PAGE: &str =
    "SELECT space, lease, start_ordinal, end_ordinal, closed_at_ordinal,
    purpose, granted_at, closed_at, id, host, pid, version, started_at
    FROM leases JOIN instances ON id = instance
    WHERE (:space IS NULL OR space = :space)
    AND (space > :after OR (space = :after AND lease > :lease))
    ORDER BY space, lease LIMIT :limit";
pub(super) const HELD_ELSEWHERE: &str =
    "SELECT CAST(COALESCE(SUM(end_ordinal - start_ordinal), 0) AS SIGNED)
    FROM leases WHERE space = :space AND open_for <> :instance AND purpose = 'lease'";
pub(super) const NAME: &str = "SELECT space, `key`, ordinal, purpose, owner, created_at, removed_at
    FROM names WHERE space = :space AND `key` = :key";
pub(super) const NAME_PAGE: &str =
    "SELECT space, `key`, ordinal, purpose, owner, created_at, removed_at
    FROM names FORCE INDEX (names_by_purpose)
    WHERE space = :space AND purpose = :purpose AND `key` > :after
    AND (:removed OR removed_at IS NULL) ORDER BY `key` LIMIT :limit";
pub(super) const NAME_REMOVE: &str =
    concat!("UPDATE names SET removed_at = ", now!(), " WHERE space = :space AND `key` = :key");
pub(super) const IMPORTED: &str =
    "SELECT imported_at FROM imported WHERE space = :space AND ordinal = :ordinal";
pub(super) const SKIPS: &str = "SELECT ordinal FROM names
    WHERE space = :space AND ordinal >= :start AND ordinal < :end
    UNION SELECT ordinal FROM imported
    WHERE space = :space AND ordinal >= :start AND ordinal < :end ORDER BY ordinal";
/// The index by ordinal ends with the primary key, so names without one lie there by key.
pub(super) const UNPLACED: &str = "SELECT `key` FROM names
    WHERE space = :space AND ordinal IS NULL AND `key` > :after ORDER BY `key` LIMIT :limit";
pub(super) const INSTANCE_KNOW: &str = concat!(
    "INSERT INTO instances (id, host, pid, version, started_at, seen_at)
    VALUES (:id, :host, :pid, :version, :started_at, ",
    now!(),
    ") ON DUPLICATE KEY UPDATE id = id"
);
pub(super) const INSTANCE_SEEN: &str = concat!(
    "UPDATE instances SET address = COALESCE(:address, address), seen_at = ",
    now!(),
    ", stopped_at = CASE WHEN :stopping THEN ",
    now!(),
    " END WHERE id = :id"
);
pub(super) const INSTANCE_PAGE: &str =
    "SELECT id, host, pid, version, started_at, address, seen_at, stopped_at
    FROM instances WHERE :after IS NULL
    OR (started_at, id) > (SELECT started_at, id FROM instances WHERE id = :after)
    ORDER BY started_at, id LIMIT :limit";
pub(super) const SECRET: &str = "SELECT secret FROM secret";
pub(super) const SECRET_MAKE: &str =
    concat!("INSERT INTO secret VALUES (1, :secret, ", now!(), ") ON DUPLICATE KEY UPDATE id = id");
pub(super) const SECRET_FORGET: &str = "DELETE FROM secret";
