//! The statements that make, read and move spaces, leases, names, sightings and instances.

/// The store, and the server that this transaction runs on: its history, and what it has made of the
/// settings that the transaction began with. A standby has no current position, and refuses.
pub(super) const STORE: &str =
    "SELECT identity, (SELECT system_identifier FROM pg_control_system()),
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), current_setting('transaction_isolation'),
    current_setting('transaction_read_only'), current_schema(), current_setting('row_security'),
    current_setting('synchronous_commit') FROM store";
pub(super) const SPACE: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces WHERE name = $1";
pub(super) const SPACE_LOCK: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces WHERE name = $1 FOR UPDATE";
pub(super) const SPACES: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces ORDER BY name";
/// In the order of their names, as all do that lock several.
pub(super) const SPACES_LOCK: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces WHERE name = ANY($1) ORDER BY name FOR UPDATE";
pub(super) const SPACES_OF: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    returned, base FROM spaces WHERE name = ANY($1) ORDER BY name";
pub(super) const MARKS: &str = "SELECT name, next, revision FROM spaces ORDER BY name";
pub(super) const SPACE_MAKE: &str = "INSERT INTO spaces
    (name, definition, tuning, fingerprint, capacity, next, revision, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    ON CONFLICT DO NOTHING";
pub(super) const SPACE_MOVE: &str =
    "UPDATE spaces SET next = $2, revision = $3, returned = $4, base = $5 WHERE name = $1";
pub(super) const SPACES_MOVE: &str = "UPDATE spaces
    SET next = moved.next, revision = moved.revision, returned = moved.returned
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[])
    AS moved (name, next, revision, returned) WHERE spaces.name = moved.name";
pub(super) const SPACE_TUNE: &str =
    "UPDATE spaces SET tuning = $2, revision = revision + 1 WHERE name = $1";
pub(super) const SPACE_DEFINE: &str =
    "UPDATE spaces SET definition = $2, capacity = $3 WHERE name = $1";
pub(super) const SPACE_SEAL: &str =
    "UPDATE spaces SET sealed = true, revision = revision + 1 WHERE name = $1 AND NOT sealed";
pub(super) const LEASE_ADD: &str = "INSERT INTO leases
    (space, lease, start_ordinal, end_ordinal, purpose, instance, granted_at)
    VALUES ($1, $2, $3, $4, $5, $6, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)";
pub(super) const LEASE_CLOSE: &str =
    "UPDATE leases SET closed_at_ordinal = coalesce($4, end_ordinal),
    closed_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    WHERE space = $1 AND lease = $2 AND instance = $3 AND closed_at IS NULL
    AND coalesce($5, end_ordinal) = end_ordinal";
pub(super) const LEASES_SPENT: &str = "UPDATE leases SET closed_at_ordinal = end_ordinal,
    closed_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    WHERE space = $1 AND lease = ANY($2) AND instance = $3 AND closed_at IS NULL";
pub(super) const LEASES_CLOSE: &str = "UPDATE leases SET closed_at_ordinal = back.closed_at,
    closed_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS back (space, lease, closed_at)
    WHERE leases.space = back.space AND leases.lease = back.lease";
pub(super) const LEASES_OPEN: &str =
    "SELECT found.* FROM unnest($1::text[], $2::bigint[]) AS wanted (space, lease)
    CROSS JOIN LATERAL (SELECT leases.space, leases.lease, instance, end_ordinal FROM leases
    WHERE leases.space = wanted.space AND leases.lease = wanted.lease AND closed_at IS NULL
    LIMIT 1) AS found";
/// Those that are not on record.
pub(super) const LEASES_LOST: &str =
    "SELECT wanted.space FROM unnest($1::text[], $2::bigint[]) AS wanted (space, lease)
    WHERE NOT EXISTS (SELECT 1 FROM leases WHERE leases.space = wanted.space
    AND leases.lease = wanted.lease AND leases.instance = $3)";
pub(super) const LEASE_REACHES: &str = "SELECT EXISTS (SELECT 1 FROM leases
    WHERE space = $1 AND lease = $2 AND instance = $3 AND end_ordinal >= $4)";
pub(super) const LEASE_EXISTS: &str =
    "SELECT EXISTS (SELECT 1 FROM leases WHERE space = $1 AND lease = $2 AND instance = $3)";
pub(super) const LEASE_OF: &str =
    "SELECT space, lease, start_ordinal, end_ordinal, closed_at_ordinal, purpose,
    granted_at, closed_at, id, host, pid, version, started_at
    FROM leases JOIN instances ON id = instance WHERE space = $1 AND start_ordinal <= $2
    AND coalesce(closed_at_ordinal, end_ordinal) > $2 ORDER BY start_ordinal DESC, lease DESC LIMIT 1";
pub(super) const LEASE_PAGE: &str =
    "SELECT space, lease, start_ordinal, end_ordinal, closed_at_ordinal,
    purpose, granted_at, closed_at, id, host, pid, version, started_at
    FROM leases JOIN instances ON id = instance
    WHERE ($1::text IS NULL OR space = $1) AND (space, lease) > ($2, $3)
    ORDER BY space, lease LIMIT $4";
pub(super) const HELD_ELSEWHERE: &str =
    "SELECT coalesce(sum(end_ordinal - start_ordinal), 0)::bigint
    FROM leases WHERE space = $1 AND instance <> $2 AND closed_at IS NULL AND purpose = 'lease'";
/// One by one, because without statistics the server would read all of a space to find many.
pub(super) const NAMES: &str =
    "SELECT found.* FROM unnest($2::text[]) AS wanted (key) CROSS JOIN LATERAL (
    SELECT space, names.key, ordinal, purpose, owner, created_at, removed_at
    FROM names WHERE space = $1 AND names.key = wanted.key LIMIT 1) AS found";
pub(super) const NAMES_PUT: &str =
    "INSERT INTO names (space, key, ordinal, purpose, owner, created_at)
    SELECT $1, key, ordinal, $4, $5, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM unnest($2::text[], $3::bigint[]) AS new (key, ordinal)
    ON CONFLICT (space, key) DO UPDATE SET purpose = excluded.purpose, owner = excluded.owner,
    created_at = excluded.created_at, removed_at = NULL";
pub(super) const NAME_REMOVE: &str = "UPDATE names
    SET removed_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    WHERE space = $1 AND key = $2";
pub(super) const IMPORTED: &str = "SELECT found.* FROM unnest($2::bigint[]) AS wanted (ordinal)
    CROSS JOIN LATERAL (SELECT imported.ordinal, imported_at
    FROM imported WHERE space = $1 AND imported.ordinal = wanted.ordinal LIMIT 1) AS found";
pub(super) const IMPORTED_ADD: &str = "INSERT INTO imported (space, ordinal, imported_at)
    SELECT $1, ordinal, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM unnest($2::bigint[]) AS new (ordinal)";
pub(super) const SKIPS: &str = "SELECT ordinal FROM names
    WHERE space = $1 AND ordinal >= $2 AND ordinal < $3
    UNION SELECT ordinal FROM imported
    WHERE space = $1 AND ordinal >= $2 AND ordinal < $3 ORDER BY ordinal";
pub(super) const UNPLACED: &str = "SELECT key FROM names
    WHERE space = $1 AND ordinal IS NULL AND key > $2 ORDER BY key LIMIT $3";
pub(super) const NAME_PAGE: &str =
    "SELECT space, key, ordinal, purpose, owner, created_at, removed_at FROM names
    WHERE space = $1 AND purpose = $2 AND key > $3 AND removed_at IS NULL ORDER BY key LIMIT $4";
/// Two indexes, each read in its order as far as it is needed.
pub(super) const NAME_PAGE_REMOVED: &str = "SELECT * FROM (
    (SELECT space, key, ordinal, purpose, owner, created_at, removed_at FROM names
    WHERE space = $1 AND purpose = $2 AND key > $3 AND removed_at IS NULL ORDER BY key LIMIT $4)
    UNION ALL (SELECT space, key, ordinal, purpose, owner, created_at, removed_at FROM names
    WHERE space = $1 AND purpose = $2 AND key > $3 AND removed_at IS NOT NULL
    ORDER BY key LIMIT $4)) AS page ORDER BY key LIMIT $4";
pub(super) const SIGHTINGS: &str = "SELECT mark FROM sightings WHERE space = $1";
pub(super) const SIGHTING: &str = "SELECT mark FROM sightings WHERE space = $1 AND instance = $2";
pub(super) const SIGHTING_PUT: &str = "INSERT INTO sightings (space, instance, mark, seen_at)
    VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    ON CONFLICT (space, instance) DO UPDATE SET mark = excluded.mark, seen_at = excluded.seen_at";
pub(super) const SIGHTINGS_DROP: &str = "DELETE FROM sightings WHERE space = $1";
pub(super) const INSTANCE_KNOW: &str = "INSERT INTO instances
    (id, host, pid, version, started_at, seen_at)
    VALUES ($1, $2, $3, $4, $5, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    ON CONFLICT DO NOTHING";
pub(super) const INSTANCE_SEEN: &str = "UPDATE instances SET address = coalesce($2, address),
    seen_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    stopped_at = CASE WHEN $3 THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint END
    WHERE id = $1";
pub(super) const INSTANCE_PAGE: &str =
    "SELECT id, host, pid, version, started_at, address, seen_at, stopped_at
    FROM instances WHERE $1::text IS NULL
    OR (started_at, id) > (SELECT started_at, id FROM instances WHERE id = $1)
    ORDER BY started_at, id LIMIT $2";
pub(super) const SECRET: &str = "SELECT secret FROM secret";
pub(super) const SECRET_MAKE: &str = "INSERT INTO secret
    VALUES (1, $1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) ON CONFLICT DO NOTHING";
pub(super) const SECRET_FORGET: &str = "DELETE FROM secret";
