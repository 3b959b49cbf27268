-- How far an instance has seen a space, written down while the store lies below that: after a
-- restore, an advance goes beyond all of them. `mark` is JSON.
CREATE TABLE sightings (
    space    TEXT    NOT NULL,
    instance TEXT    NOT NULL,
    mark     TEXT    NOT NULL,
    seen_at  INTEGER NOT NULL,
    PRIMARY KEY (space, instance)
) WITHOUT ROWID;

-- Names are listed by purpose and key, with those that were removed or without. Pools and digests
-- have millions of names, none of them removed and nothing else among them: the primary key lists
-- those, and their imports write no further index.
CREATE INDEX names_listed ON names (space, purpose, key) WHERE purpose IN ('alias', 'used');
CREATE INDEX names_kept ON names (space, purpose, key)
    WHERE purpose IN ('alias', 'used') AND removed_at IS NULL;
