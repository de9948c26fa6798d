-- Version 4: where the functions of a point run.

ALTER TABLE points ADD COLUMN placement TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(placement));
