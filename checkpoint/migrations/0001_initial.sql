-- Times are integer milliseconds since 1970 UTC; NULL is "never" and 0 in not_before is "at once".
-- The CHECKs tie each state to the columns that go with it, so that no row can claim something impossible.

PRAGMA application_id = 0x524D4D4A; -- "RMMJ": tells a checkpoint from any other SQLite file

CREATE TABLE runs (
    seq        INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    job_key    TEXT    NOT NULL CHECK (job_key <> ''),
    job_name   TEXT    NOT NULL,
    job_path   TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    account    TEXT    NOT NULL,
    job_hash   TEXT    NOT NULL,
    input_hash TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('planned', 'running', 'stopped', 'throttled', 'auth', 'unreachable',
                   'local_io', 'aborted', 'superseded', 'ok', 'partial', 'in_doubt', 'guard', 'incomplete', 'internal')),
    stage      TEXT    NOT NULL,
    exit_code  INTEGER NOT NULL CHECK (exit_code BETWEEN 0 AND 255),
    error      TEXT    NOT NULL,
    settings   BLOB,
    created    INTEGER NOT NULL CHECK (created >= 0),
    started    INTEGER CHECK (started >= 0),
    finished   INTEGER CHECK (finished >= 0),
    resumes    INTEGER NOT NULL CHECK (resumes >= 0),
    reads      INTEGER NOT NULL CHECK (reads >= 0),
    writes     INTEGER NOT NULL CHECK (writes >= 0),
    throttled  INTEGER NOT NULL CHECK (throttled >= 0),
    host       TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    CHECK (state <> 'running' OR (started IS NOT NULL AND finished IS NULL)),
    CHECK (state IN ('planned', 'running') OR finished IS NOT NULL),
    CHECK (resumes = 0 OR started IS NOT NULL)
) STRICT;

CREATE INDEX runs_by_job ON runs (job_key, seq);

CREATE TABLE items (
    id         INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL REFERENCES runs (seq) ON DELETE CASCADE,
    key        TEXT    NOT NULL CHECK (key <> ''),
    lane       TEXT    NOT NULL,
    op         TEXT    NOT NULL,
    payload    BLOB,
    replay     TEXT    NOT NULL CHECK (replay IN ('free', 'ask')),
    state      TEXT    NOT NULL CHECK (state IN ('pending', 'running', 'done', 'unchanged', 'skipped', 'failed', 'in_doubt')),
    attempts   INTEGER NOT NULL CHECK (attempts >= 0),
    not_before INTEGER NOT NULL CHECK (not_before >= 0),
    lease      INTEGER,
    class      TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    http       INTEGER NOT NULL CHECK (http BETWEEN 0 AND 999),
    created    INTEGER NOT NULL CHECK (created >= 0),
    sent       INTEGER CHECK (sent >= 0),
    finished   INTEGER CHECK (finished >= 0),
    UNIQUE (run, key),
    CHECK ((state = 'running') = (lease IS NOT NULL)),
    CHECK ((state IN ('pending', 'running')) = (finished IS NULL)),
    CHECK (state <> 'running' OR attempts > 0),
    CHECK (state = 'pending' OR not_before = 0),
    CHECK (state <> 'pending' OR sent IS NULL),
    CHECK (sent IS NULL OR attempts > 0),
    CHECK (state IN ('unchanged', 'skipped', 'failed') OR lane <> ''),
    CHECK (state NOT IN ('skipped', 'failed', 'in_doubt') OR reason <> ''),
    CHECK (state NOT IN ('done', 'unchanged') OR class = '')
) STRICT;

-- What claiming asks for: the first due item of a lane. It holds pending rows only, so it stays as small as the work left.
CREATE INDEX items_pending ON items (run, lane, not_before, id) WHERE state = 'pending';
-- What counting, failure lists and recovery ask for.
CREATE INDEX items_by_state ON items (run, state);

-- Answers live apart from the items, so that walking the items never reads them.
CREATE TABLE results (
    item     INTEGER PRIMARY KEY REFERENCES items (id) ON DELETE CASCADE,
    encoding TEXT    NOT NULL CHECK (encoding IN ('raw', 'zlib')),
    size     INTEGER NOT NULL CHECK (size > 0), -- of the body before compression
    body     BLOB    NOT NULL CHECK (encoding <> 'raw' OR length(body) = size)
) STRICT;

CREATE TABLE plan_rows (
    run      INTEGER NOT NULL REFERENCES runs (seq) ON DELETE CASCADE,
    number   INTEGER NOT NULL,
    class    TEXT    NOT NULL CHECK (class <> ''),
    item_key TEXT    NOT NULL,
    payload  BLOB,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    seq  INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL REFERENCES runs (seq) ON DELETE CASCADE,
    at   INTEGER NOT NULL CHECK (at >= 0),
    kind TEXT    NOT NULL CHECK (kind <> ''),
    text TEXT    NOT NULL
) STRICT;

CREATE INDEX events_by_run ON events (run, seq);
