-- Migrations only add: the version before must still run on what comes after it.
-- Times are milliseconds since 1970, by this server's clock. Names are compared as bytes.

CREATE TABLE store (
    id         integer PRIMARY KEY CHECK (id = 1),
    identity   text    NOT NULL,
    created_at bigint  NOT NULL
);
INSERT INTO store VALUES (
    1,
    substr(replace(gen_random_uuid()::text, '-', ''), 1, 16),
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
);

CREATE TABLE secret (
    id         integer PRIMARY KEY CHECK (id = 1),
    secret     text    NOT NULL,
    created_at bigint  NOT NULL
);

-- What was granted, what came back and the revision are one row. `returned` lists ranges of
-- ordinals that came back undrawn, as [[start, end], …] by start: they are granted again before
-- new ones.
CREATE TABLE spaces (
    name        text COLLATE "C" PRIMARY KEY,
    definition  text    NOT NULL,
    tuning      text    NOT NULL,
    fingerprint text,
    capacity    bigint  NOT NULL,
    next        bigint  NOT NULL,
    returned    text    NOT NULL DEFAULT '[]',
    revision    bigint  NOT NULL,
    sealed      boolean NOT NULL DEFAULT false,
    created_at  bigint  NOT NULL
) WITH (fillfactor = 50);

-- A lease's number is the revision of its space that granted it.
CREATE TABLE leases (
    space             text COLLATE "C" NOT NULL,
    lease             bigint NOT NULL,
    start_ordinal     bigint NOT NULL,
    end_ordinal       bigint NOT NULL,
    closed_at_ordinal bigint,
    purpose           text   NOT NULL,
    instance          text COLLATE "C" NOT NULL,
    granted_at        bigint NOT NULL,
    closed_at         bigint,
    PRIMARY KEY (space, lease)
);
CREATE INDEX leases_by_start ON leases (space, start_ordinal);
CREATE INDEX leases_open ON leases (space, instance) WHERE closed_at IS NULL;

CREATE TABLE instances (
    id         text COLLATE "C" PRIMARY KEY,
    host       text   NOT NULL,
    pid        bigint NOT NULL,
    version    text   NOT NULL,
    address    text,
    started_at bigint NOT NULL,
    seen_at    bigint NOT NULL,
    stopped_at bigint
);
CREATE INDEX instances_by_age ON instances (started_at, id);
