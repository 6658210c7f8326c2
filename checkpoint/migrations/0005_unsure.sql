-- An item is unsure once a request of it was sent whose effect nobody knows: the answer was lost, or what was acknowledged is
-- not there. It stays so when it is sent again, and when it fails in the end. Of older items nothing tells for certain, so
-- those that were tried before and are not done count as unsure: whoever asks for them looks what is there.
ALTER TABLE items ADD COLUMN unsure INTEGER NOT NULL DEFAULT 0 CHECK (unsure IN (0, 1));

UPDATE items SET unsure = 1 WHERE lane <> 'read' AND (state = 'running' OR state = 'pending' AND reason <> ''
    OR state = 'failed' AND class IN ('network', 'service', 'protocol', 'stopped', 'not_applied'));
