-- Keys that are names rather than generated: aliases, imported keys, keys already in use. One that
-- could also be generated has its ordinal here, which is then never granted, not even when the
-- name is removed.
CREATE TABLE names (
    space      TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    ordinal    INTEGER,
    purpose    TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    removed_at INTEGER,
    PRIMARY KEY (space, key)
) WITHOUT ROWID;
CREATE INDEX names_by_ordinal ON names (space, ordinal) WHERE ordinal IS NOT NULL;
