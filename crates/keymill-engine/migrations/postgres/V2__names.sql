-- Keys that are names rather than generated: aliases, imported keys, keys already in use. One that
-- could also be generated has its ordinal here, which is then never granted, not even when the
-- name is removed.
CREATE TABLE names (
    space      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    ordinal    bigint,
    purpose    text   NOT NULL,
    owner      text   NOT NULL,
    created_at bigint NOT NULL,
    removed_at bigint,
    PRIMARY KEY (space, key)
);
CREATE INDEX names_by_ordinal ON names (space, ordinal) WHERE ordinal IS NOT NULL;
