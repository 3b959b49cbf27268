-- Windows of the workers of snowflake keyspaces. `base` is the first tick that a window may begin
-- with: an advance moves it beyond all that was seen.
ALTER TABLE spaces ADD COLUMN base bigint NOT NULL DEFAULT 0;

-- One row for each worker number that was ever leased: who holds it, or was the last to hold it,
-- and under which lease. `ends` is the first tick that nobody may have used; once it has passed,
-- the worker is free.
--
-- The lease, with the purpose 'window', is the record of that tenancy. Its ordinals are ticks with
-- the worker number above them, and its end moves on with `ends`.
CREATE TABLE workers (
    space    text COLLATE "C" NOT NULL,
    worker   bigint NOT NULL,
    instance text COLLATE "C" NOT NULL,
    lease    bigint NOT NULL,
    ends     bigint NOT NULL,
    PRIMARY KEY (space, worker)
) WITH (fillfactor = 50);
