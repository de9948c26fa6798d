-- Version 6: runs that came in bundles (docs/bundles.md).

-- `name` is what the run was called where it was measured; `signature` a JSON object, where the bundle was signed;
-- `differences` what of it did not follow from its trials, where it was taken all the same.
CREATE TABLE imports (
    run_id      INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    address     TEXT NOT NULL,
    signature   TEXT CHECK (json_valid(signature)),
    imported_ms INTEGER NOT NULL,
    differences INTEGER NOT NULL DEFAULT 0
) STRICT;
