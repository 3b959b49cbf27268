-- Migrations only add: the version before must still run on what comes after it. MySQL commits
-- each of these on its own, so each may be run again after an interruption.
-- Times are milliseconds since 1970, by this server's clock. Names are compared as bytes.

CREATE TABLE IF NOT EXISTS store (
    id         INT            NOT NULL PRIMARY KEY,
    identity   VARBINARY(32)  NOT NULL,
    created_at BIGINT         NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO store VALUES (
    1,
    LEFT(SHA2(CONCAT(UUID(), RAND(), RAND()), 256), 16),
    CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)
);

CREATE TABLE IF NOT EXISTS secret (
    id         INT            NOT NULL PRIMARY KEY,
    secret     VARBINARY(255) NOT NULL,
    created_at BIGINT         NOT NULL
) ENGINE = InnoDB;

-- What was granted, what came back and the revision are one row. `returned` lists ranges of
-- ordinals that came back undrawn, as [[start, end], …] by start: they are granted again before
-- new ones.
CREATE TABLE IF NOT EXISTS spaces (
    name        VARBINARY(255) NOT NULL PRIMARY KEY,
    definition  LONGBLOB       NOT NULL,
    tuning      LONGBLOB       NOT NULL,
    fingerprint VARBINARY(64),
    capacity    BIGINT         NOT NULL,
    next        BIGINT         NOT NULL,
    returned    LONGBLOB       NOT NULL,
    revision    BIGINT         NOT NULL,
    sealed      BOOLEAN        NOT NULL DEFAULT FALSE,
    created_at  BIGINT         NOT NULL
) ENGINE = InnoDB;

-- A lease's number is the revision of its space that granted it. `open_for` is the holder while
-- the lease is open, so that open leases can be found by an index.
CREATE TABLE IF NOT EXISTS leases (
    space             VARBINARY(255) NOT NULL,
    lease             BIGINT         NOT NULL,
    start_ordinal     BIGINT         NOT NULL,
    end_ordinal       BIGINT         NOT NULL,
    closed_at_ordinal BIGINT,
    purpose           VARBINARY(16)  NOT NULL,
    instance          VARBINARY(64)  NOT NULL,
    open_for          VARBINARY(64),
    granted_at        BIGINT         NOT NULL,
    closed_at         BIGINT,
    PRIMARY KEY (space, lease),
    INDEX leases_by_start (space, start_ordinal),
    INDEX leases_open (space, open_for)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS instances (
    id         VARBINARY(64)  NOT NULL PRIMARY KEY,
    host       VARBINARY(255) NOT NULL,
    pid        BIGINT         NOT NULL,
    version    VARBINARY(64)  NOT NULL,
    address    VARBINARY(255),
    started_at BIGINT         NOT NULL,
    seen_at    BIGINT         NOT NULL,
    stopped_at BIGINT,
    INDEX instances_by_age (started_at, id)
) ENGINE = InnoDB;
