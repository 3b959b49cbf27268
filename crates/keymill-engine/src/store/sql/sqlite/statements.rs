//! The statements that a SQLite store runs on its spaces, leases, names and instances. Those of one
//! concept alone stand with it: windows, keys.

pub(super) const SPACE: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces";
pub(super) const MARKS: &str = "SELECT name, next, revision FROM spaces ORDER BY name";
pub(super) const SPACE_MAKE: &str = "INSERT INTO spaces
    (name, definition, tuning, fingerprint, capacity, next, revision, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7)";
pub(super) const SPACE_MOVE: &str =
    "UPDATE spaces SET next = ?2, revision = ?3, returned = ?4, base = ?5 WHERE name = ?1";
pub(super) const SPACE_TUNE: &str =
    "UPDATE spaces SET tuning = ?2, revision = revision + 1 WHERE name = ?1";
pub(super) const SPACE_DEFINE: &str =
    "UPDATE spaces SET definition = ?2, capacity = ?3 WHERE name = ?1";
pub(super) const SPACE_SEAL: &str =
    "UPDATE spaces SET sealed = 1, revision = revision + 1 WHERE name = ?1 AND sealed = 0";
pub(super) const LEASE_ADD: &str = "INSERT INTO leases
    (space, lease, start_ordinal, end_ordinal, purpose, instance, granted_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
pub(super) const LEASE_CLOSE: &str =
    "UPDATE leases SET closed_at_ordinal = coalesce(?4, end_ordinal), closed_at = ?5
    WHERE space = ?1 AND lease = ?2 AND instance = ?3 AND closed_at IS NULL
    AND coalesce(?6, end_ordinal) = end_ordinal";
pub(super) const LEASE_EXISTS: &str =
    "SELECT EXISTS (SELECT 1 FROM leases WHERE space = ?1 AND lease = ?2 AND instance = ?3)";
pub(super) const LEASE_REACHES: &str = "SELECT EXISTS (SELECT 1 FROM leases
    WHERE space = ?1 AND lease = ?2 AND instance = ?3 AND end_ordinal >= ?4)";
pub(super) const LEASE: &str =
    "SELECT space, lease, start_ordinal, end_ordinal, closed_at_ordinal, purpose,
    granted_at, closed_at, id, host, pid, version, started_at
    FROM leases JOIN instances ON id = instance";
pub(super) const LEASE_OF: &str = "WHERE space = ?1 AND start_ordinal <= ?2
    AND coalesce(closed_at_ordinal, end_ordinal) > ?2 ORDER BY start_ordinal DESC, lease DESC LIMIT 1";
pub(super) const LEASE_PAGE: &str = "WHERE (?1 IS NULL OR space = ?1) AND (space, lease) > (?2, ?3)
    ORDER BY space, lease LIMIT ?4";
pub(super) const HELD_ELSEWHERE: &str =
    "SELECT coalesce(sum(end_ordinal - start_ordinal), 0) FROM leases
    WHERE space = ?1 AND instance <> ?2 AND closed_at IS NULL AND purpose = 'lease'";
pub(super) const NAME: &str = "SELECT space, key, ordinal, purpose, owner, created_at, removed_at
    FROM names WHERE space = ?1 AND key = ?2";
// Each names its index: the planner would rather read every name of the space in the table itself.
pub(super) const NAMES_KEPT: &str =
    "SELECT space, key, ordinal, purpose, owner, created_at, removed_at
    FROM names INDEXED BY names_kept WHERE purpose IN ('alias', 'used') AND removed_at IS NULL
    AND space = ?1 AND purpose = ?2 AND key > ?3 ORDER BY key LIMIT ?4";
pub(super) const NAMES_LISTED: &str =
    "SELECT space, key, ordinal, purpose, owner, created_at, removed_at
    FROM names INDEXED BY names_listed WHERE purpose IN ('alias', 'used')
    AND space = ?1 AND purpose = ?2 AND key > ?3 ORDER BY key LIMIT ?4";
// Of pools and digests, which have no index of their own and cannot be removed.
pub(super) const NAMES_OF: &str =
    "SELECT space, key, ordinal, purpose, owner, created_at, removed_at
    FROM names WHERE space = ?1 AND purpose = ?2 AND key > ?3 ORDER BY key LIMIT ?4";
pub(super) const NAME_PUT: &str =
    "INSERT INTO names (space, key, ordinal, purpose, owner, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (space, key) DO UPDATE SET
    purpose = excluded.purpose, owner = excluded.owner, created_at = excluded.created_at,
    removed_at = NULL";
pub(super) const NAME_REMOVE: &str =
    "UPDATE names SET removed_at = ?3 WHERE space = ?1 AND key = ?2";
pub(super) const IMPORTED: &str =
    "SELECT imported_at FROM imported WHERE space = ?1 AND ordinal = ?2";
pub(super) const IMPORTED_ADD: &str = "INSERT INTO imported VALUES (?1, ?2, ?3)";
pub(super) const SKIPS: &str = "SELECT ordinal FROM names
    WHERE space = ?1 AND ordinal >= ?2 AND ordinal < ?3
    UNION SELECT ordinal FROM imported
    WHERE space = ?1 AND ordinal >= ?2 AND ordinal < ?3 ORDER BY ordinal";
pub(super) const UNPLACED: &str = "SELECT key FROM names
    WHERE space = ?1 AND ordinal IS NULL AND key > ?2 ORDER BY key LIMIT ?3";
pub(super) const INSTANCE_KNOW: &str = "INSERT INTO instances
    (id, host, pid, version, started_at, seen_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT DO NOTHING";
pub(super) const INSTANCE_SEEN: &str =
    "UPDATE instances SET seen_at = ?2, address = coalesce(?3, address),
    stopped_at = CASE WHEN ?4 THEN ?2 END WHERE id = ?1";
pub(super) const INSTANCE_PAGE: &str =
    "SELECT id, host, pid, version, started_at, address, seen_at, stopped_at
    FROM instances WHERE ?1 IS NULL
    OR (started_at, id) > (SELECT started_at, id FROM instances WHERE id = ?1)
    ORDER BY started_at, id LIMIT ?2";
pub(super) const SIGHTING: &str = "SELECT mark FROM sightings WHERE space = ?1 AND instance = ?2";
pub(super) const SIGHTINGS: &str = "SELECT mark FROM sightings WHERE space = ?1";
pub(super) const SIGHTINGS_DROP: &str = "DELETE FROM sightings WHERE space = ?1";
pub(super) const SIGHTING_PUT: &str = "INSERT INTO sightings (space, instance, mark, seen_at)
    SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM spaces WHERE name = ?1)
    ON CONFLICT (space, instance) DO UPDATE SET mark = excluded.mark, seen_at = excluded.seen_at";
