-- Keys as rows. A pool's keys are written in advance, into `available_keys`, and move to `used_keys`
-- when they are claimed (audit "batch") or handed out (audit "key"). Generated keys of any keyspace
-- with audit "key" are written there too.
--
-- Both tables grow at their end and are read by `id`, never at random: an id is the revision of the
-- keyspace that wrote the key, times 65536, plus its place; of a leased key it is the ordinal. No
-- index on `key` is needed to find one, because a key tells its ordinal and so its id.

-- How many keys of a pool are available and not reserved.
CREATE TABLE pools (
    space     TEXT    NOT NULL PRIMARY KEY,
    available INTEGER NOT NULL
) WITHOUT ROWID;

-- The ids of keys that somebody imported into a pool.
CREATE TABLE pool_names (
    space TEXT    NOT NULL,
    key TEXT    NOT NULL,
    id    INTEGER NOT NULL,
    PRIMARY KEY (space, key)
) WITHOUT ROWID;

CREATE TABLE available_keys (
    id          INTEGER NOT NULL,
    space       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    reserved_by TEXT,
    reserved_at INTEGER,
    PRIMARY KEY (space, id)
) WITHOUT ROWID;
CREATE INDEX available_keys_reserved ON available_keys (space, reserved_at)
    WHERE reserved_at IS NOT NULL;

CREATE TABLE used_keys (
    id         INTEGER NOT NULL,
    space      TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    used_at    INTEGER NOT NULL,
    caller     TEXT    NOT NULL,
    instance   TEXT    NOT NULL,
    expires_at INTEGER,
    retired_at INTEGER,
    PRIMARY KEY (space, id)
) WITHOUT ROWID;
CREATE INDEX used_keys_by_time ON used_keys (space, used_at, id);
CREATE INDEX used_keys_by_caller ON used_keys (space, caller, used_at, id) WHERE caller <> '';

-- The key of every input that was digested. The key is a name too, so that it is nobody else's.
CREATE TABLE digests (
    space      TEXT    NOT NULL,
    input      BLOB    NOT NULL,
    key        TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (space, input)
) WITHOUT ROWID;

-- Ordinals whose keys are in use elsewhere, millions perhaps: by ordinal alone, so that an import in
-- their order writes the table from one end to the other.
CREATE TABLE imported (
    space       TEXT    NOT NULL,
    ordinal     INTEGER NOT NULL,
    imported_at INTEGER NOT NULL,
    PRIMARY KEY (space, ordinal)
) WITHOUT ROWID;
