-- Keys as rows. A pool's keys are written in advance, into `available_keys`, and move to `used_keys`
-- when they are claimed (audit "batch") or handed out (audit "key"). Generated keys of any keyspace
-- with audit "key" are written there too.
--
-- Both tables grow at their end and are read by `id`, never at random: an id is the revision of the
-- keyspace that wrote the key, times 65536, plus its place; of a leased key it is the ordinal. No
-- index on `key` is needed to find one, because a key tells its ordinal and so its id.

-- How many keys of a pool are available and not reserved.
CREATE TABLE IF NOT EXISTS pools (
    space     VARBINARY(255) NOT NULL PRIMARY KEY,
    available BIGINT NOT NULL
) ENGINE = InnoDB;

-- The ids of keys that somebody imported into a pool.
CREATE TABLE IF NOT EXISTS pool_names (
    space VARBINARY(255) NOT NULL,
    `key` VARBINARY(255) NOT NULL,
    id    BIGINT NOT NULL,
    PRIMARY KEY (space, `key`)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS available_keys (
    id          BIGINT         NOT NULL,
    space       VARBINARY(255) NOT NULL,
    `key`       VARBINARY(255) NOT NULL,
    reserved_by VARBINARY(64),
    reserved_at BIGINT,
    PRIMARY KEY (space, id),
    INDEX available_keys_reserved (space, reserved_at)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS used_keys (
    id         BIGINT         NOT NULL,
    space      VARBINARY(255) NOT NULL,
    `key`      VARBINARY(255) NOT NULL,
    used_at    BIGINT         NOT NULL,
    caller     VARBINARY(255) NOT NULL,
    instance   VARBINARY(64)  NOT NULL,
    expires_at BIGINT,
    retired_at BIGINT,
    PRIMARY KEY (space, id),
    INDEX used_keys_by_time (space, used_at, id),
    INDEX used_keys_by_caller (space, caller, used_at, id)
) ENGINE = InnoDB;

-- The key of every input that was digested. The key is a name too, so that it is nobody else's.
CREATE TABLE IF NOT EXISTS digests (
    space      VARBINARY(255) NOT NULL,
    input      VARBINARY(32)  NOT NULL,
    `key`      VARBINARY(255) NOT NULL,
    created_at BIGINT         NOT NULL,
    PRIMARY KEY (space, input)
) ENGINE = InnoDB;

-- Ordinals whose keys are in use elsewhere, millions perhaps: by ordinal alone, so that an import in
-- their order writes the table from one end to the other.
CREATE TABLE IF NOT EXISTS imported (
    space       VARBINARY(255) NOT NULL,
    ordinal     BIGINT NOT NULL,
    imported_at BIGINT NOT NULL,
    PRIMARY KEY (space, ordinal)
) ENGINE = InnoDB;
