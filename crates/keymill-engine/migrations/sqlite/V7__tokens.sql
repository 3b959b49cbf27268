-- The token list, one JSON text: a single row, which is there from the start, so that it can be locked.
-- Each change raises `revision`. `acts_made` counts the acts that were ever recorded.
CREATE TABLE tokens (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    revision  INTEGER NOT NULL,
    document  TEXT    NOT NULL,
    acts_made INTEGER NOT NULL
);
INSERT INTO tokens (id, revision, document, acts_made) VALUES (1, 0, '', 0);

-- What administrators did: when, who, from where, and what. The oldest are removed in time.
CREATE TABLE acts (
    id       INTEGER PRIMARY KEY,
    acted_at INTEGER NOT NULL,
    actor    TEXT    NOT NULL,
    origin   TEXT    NOT NULL,
    act      TEXT    NOT NULL
);
