-- Windows of the workers of snowflake keyspaces. `base` is the first tick that a window may begin
-- with: an advance moves it beyond all that was seen. MySQL knows no ADD COLUMN IF NOT EXISTS, and
-- this may be run again after an interruption.
SET @add_base = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'spaces' AND column_name = 'base'
    ),
    'DO 0',
    'ALTER TABLE spaces ADD COLUMN base BIGINT NOT NULL DEFAULT 0'
);
PREPARE add_base FROM @add_base;
EXECUTE add_base;
DEALLOCATE PREPARE add_base;

-- One row for each worker number that was ever leased: who holds it, or was the last to hold it,
-- and under which lease. `ends` is the first tick that nobody may have used; once it has passed,
-- the worker is free.
--
-- The lease, with the purpose 'window', is the record of that tenancy. Its ordinals are ticks with
-- the worker number above them, and its end moves on with `ends`.
CREATE TABLE IF NOT EXISTS workers (
    space    VARBINARY(255) NOT NULL,
    worker   BIGINT         NOT NULL,
    instance VARBINARY(64)  NOT NULL,
    lease    BIGINT         NOT NULL,
    ends     BIGINT         NOT NULL,
    PRIMARY KEY (space, worker)
) ENGINE = InnoDB;
