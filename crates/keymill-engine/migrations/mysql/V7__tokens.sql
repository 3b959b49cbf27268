-- The token list, one JSON text: a single row, which is there from the start, so that it can be locked.
-- Each change raises `revision`. `acts_made` counts the acts that were ever recorded. This may be run
-- again after an interruption.
CREATE TABLE IF NOT EXISTS tokens (
    id        BIGINT     NOT NULL,
    revision  BIGINT     NOT NULL,
    document  MEDIUMBLOB NOT NULL,
    acts_made BIGINT     NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;
INSERT IGNORE INTO tokens (id, revision, document, acts_made) VALUES (1, 0, '', 0);

-- What administrators did: when, who, from where, and what. The oldest are removed in time.
CREATE TABLE IF NOT EXISTS acts (
    id       BIGINT NOT NULL,
    acted_at BIGINT NOT NULL,
    actor    BLOB   NOT NULL,
    origin   BLOB   NOT NULL,
    act      BLOB   NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;
