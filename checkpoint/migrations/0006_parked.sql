-- An item that is parked is held and left out when held items are released: a retry of what has failed does not send what
-- the run has never come to.
ALTER TABLE items ADD COLUMN parked INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1));
