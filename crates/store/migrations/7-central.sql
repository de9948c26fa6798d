-- Version 7: a server for several (docs/central.md): who may push runs to it, and what they pushed.

-- An account that was closed keeps its runs, and its tokens open nothing.
CREATE TABLE accounts (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    created_ms  INTEGER NOT NULL,
    closed_ms   INTEGER,
    quota_bytes INTEGER NOT NULL,
    quota_runs  INTEGER NOT NULL
) STRICT;

-- `key` is the part of a token that names it, `hash` the SHA-256 of its secret part, in hexadecimal.
CREATE TABLE tokens (
    id         INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    key        TEXT NOT NULL UNIQUE,
    hash       TEXT NOT NULL,
    scope      TEXT NOT NULL CHECK (scope IN ('read', 'push')),
    created_ms INTEGER NOT NULL,
    used_ms    INTEGER,
    revoked_ms INTEGER
) STRICT;

CREATE INDEX tokens_by_account ON tokens (account_id);

-- A run without a row here was measured or imported by whoever has the database, and is public where it is served.
-- `bytes` is what its bundle unpacks to.
CREATE TABLE shares (
    run_id     INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    visibility TEXT NOT NULL CHECK (visibility IN ('public', 'unlisted', 'private')),
    licence    TEXT NOT NULL,
    bytes      INTEGER NOT NULL,
    pushed_ms  INTEGER NOT NULL
) STRICT;

CREATE INDEX shares_by_account ON shares (account_id);
