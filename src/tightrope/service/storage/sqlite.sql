-- The tables of one journal. `sqlite.py` fills in what is in braces.
CREATE TABLE journal (
    position INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind INTEGER NOT NULL, event_id TEXT, data BLOB NOT NULL
) STRICT;
CREATE INDEX journal_event ON journal (event_id) WHERE kind <= {last_by_event};
CREATE INDEX journal_kind ON journal (kind, position) WHERE kind > {last_by_event};
CREATE TABLE snapshot (
    position INTEGER PRIMARY KEY, time INTEGER NOT NULL, digest TEXT NOT NULL, label TEXT, state BLOB NOT NULL
) STRICT;
CREATE TABLE probe (id INTEGER PRIMARY KEY CHECK (id = 1), count INTEGER NOT NULL) STRICT;
INSERT INTO probe VALUES (1, 0);
PRAGMA application_id = {application};
PRAGMA user_version = {format};
