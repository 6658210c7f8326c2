-- An item that is held waits to be released before anybody may claim it: a plan that nobody has applied, and the rest of a
-- plan whose first rows are tried out. Plans of older programs wait in the stage "planned"; their items are held from now on.
ALTER TABLE items ADD COLUMN held INTEGER NOT NULL DEFAULT 0 CHECK (held IN (0, 1) AND (held = 0 OR state = 'pending'));

UPDATE items SET held = 1 WHERE state = 'pending' AND run IN (SELECT seq FROM runs WHERE stage = 'planned' AND state = 'planned');

DROP INDEX items_pending;
CREATE INDEX items_pending ON items (run, lane, not_before, id) WHERE state = 'pending' AND held = 0;
CREATE INDEX items_held ON items (run, id) WHERE held = 1;
