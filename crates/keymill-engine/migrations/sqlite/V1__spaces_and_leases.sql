-- Migrations only add: the version before must still run on what comes after it.

CREATE TABLE store (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    identity   TEXT    NOT NULL,
    created_at INTEGER NOT NULL
);
INSERT INTO store VALUES (1, lower(hex(randomblob(8))), unixepoch() * 1000);

CREATE TABLE secret (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    secret     TEXT    NOT NULL,
    created_at INTEGER NOT NULL
);

-- What was granted, what came back and the revision are one row, so that no damage to the file
-- can leave one of them newer than the others. `returned` lists ranges of ordinals that came back
-- undrawn, as [[start, end], …] by start: they are granted again before new ones.
CREATE TABLE spaces (
    name        TEXT    PRIMARY KEY,
    definition  TEXT    NOT NULL,
    tuning      TEXT    NOT NULL,
    fingerprint TEXT,
    capacity    INTEGER NOT NULL,
    next        INTEGER NOT NULL,
    returned    TEXT    NOT NULL DEFAULT '[]',
    revision    INTEGER NOT NULL,
    sealed      INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL
) WITHOUT ROWID;

-- A lease's number is the revision of its space that granted it.
CREATE TABLE leases (
    space             TEXT    NOT NULL,
    lease             INTEGER NOT NULL,
    start_ordinal     INTEGER NOT NULL,
    end_ordinal       INTEGER NOT NULL,
    closed_at_ordinal INTEGER,
    purpose           TEXT    NOT NULL,
    instance          TEXT    NOT NULL,
    granted_at        INTEGER NOT NULL,
    closed_at         INTEGER,
    PRIMARY KEY (space, lease)
) WITHOUT ROWID;
CREATE INDEX leases_by_start ON leases (space, start_ordinal);
CREATE INDEX leases_open ON leases (space, instance) WHERE closed_at IS NULL;

CREATE TABLE instances (
    id         TEXT    PRIMARY KEY,
    host       TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    version    TEXT    NOT NULL,
    address    TEXT,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    stopped_at INTEGER
) WITHOUT ROWID;
