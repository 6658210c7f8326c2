-- What people ask of a working run from other processes, in the order of seq. taken is when the run took it; NULL is "not
-- yet". A control outlives its run only by the run's own row.
CREATE TABLE controls (
    seq      INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES runs (seq) ON DELETE CASCADE,
    at       INTEGER NOT NULL CHECK (at >= 0),
    verb     TEXT    NOT NULL CHECK (verb <> ''),
    argument TEXT    NOT NULL,
    taken    INTEGER CHECK (taken >= 0)
) STRICT;

CREATE INDEX controls_by_run ON controls (run, seq);

-- The latest that a working run has told of itself: one row per run, written over every second.
CREATE TABLE live (
    run    INTEGER PRIMARY KEY REFERENCES runs (seq) ON DELETE CASCADE,
    at     INTEGER NOT NULL CHECK (at >= 0),
    status BLOB    NOT NULL
) STRICT;
