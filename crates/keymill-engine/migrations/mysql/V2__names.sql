-- Keys that are names rather than generated: aliases, imported keys, keys already in use. One that
-- could also be generated has its ordinal here, which is then never granted, not even when the
-- name is removed.
CREATE TABLE IF NOT EXISTS names (
    space      VARBINARY(255) NOT NULL,
    `key`      VARBINARY(255) NOT NULL,
    ordinal    BIGINT,
    purpose    VARBINARY(16)  NOT NULL,
    owner      VARBINARY(255) NOT NULL,
    created_at BIGINT         NOT NULL,
    removed_at BIGINT,
    PRIMARY KEY (space, `key`),
    INDEX names_by_ordinal (space, ordinal)
) ENGINE = InnoDB;
