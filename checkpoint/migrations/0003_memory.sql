-- What a job remembers of a published run for the next one. It belongs to the job and to what the job selects, not to a
-- run, so it outlives every run. An empty run means that nothing is remembered (yet, or any more).
CREATE TABLE memories (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice: a run may hold on to one that is gone
    job_key    TEXT    NOT NULL CHECK (job_key <> ''),
    selection  TEXT    NOT NULL CHECK (selection <> ''),
    job_name   TEXT    NOT NULL,
    job_path   TEXT    NOT NULL,
    account    TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    updated    INTEGER NOT NULL CHECK (updated >= 0),
    generation INTEGER NOT NULL CHECK (generation >= 0),
    notes      BLOB    NOT NULL,
    UNIQUE (job_key, selection)
) STRICT;

-- Long lists in order, in blocks. Only those of the memory's generation count; others are leftovers of a change that was
-- cut off.
CREATE TABLE memory_blocks (
    memory     INTEGER NOT NULL REFERENCES memories (seq) ON DELETE CASCADE,
    generation INTEGER NOT NULL,
    part       TEXT    NOT NULL CHECK (part <> ''),
    number     INTEGER NOT NULL,
    encoding   TEXT    NOT NULL CHECK (encoding IN ('raw', 'zlib')),
    size       INTEGER NOT NULL CHECK (size > 0),
    body       BLOB    NOT NULL CHECK (encoding <> 'raw' OR length(body) = size),
    PRIMARY KEY (memory, generation, part, number)
) STRICT;

-- Answers that a later run may take over instead of asking again, as long as the stamp of their topic is what it was. They
-- are true whether their run has published or not, so they have no generation.
CREATE TABLE memory_answers (
    memory   INTEGER NOT NULL REFERENCES memories (seq) ON DELETE CASCADE,
    topic    TEXT    NOT NULL CHECK (topic <> ''),
    page     INTEGER NOT NULL CHECK (page >= 0),
    stamp    TEXT    NOT NULL,
    payload  BLOB,
    state    TEXT    NOT NULL CHECK (state IN ('done', 'skipped')),
    reason   TEXT    NOT NULL CHECK (state <> 'skipped' OR reason <> ''),
    http     INTEGER NOT NULL,
    encoding TEXT,
    size     INTEGER,
    body     BLOB,
    PRIMARY KEY (memory, topic, page)
) STRICT;

-- How many answers of a run came from memory.
CREATE INDEX items_remembered ON items (run) WHERE lane = 'memory';
