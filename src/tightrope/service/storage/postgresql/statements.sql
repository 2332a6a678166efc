-- What the journal and the lease ask of the database, each statement below its name.

-- append
-- The row of the lease stays locked until the transaction ends, so a term ends after the last statement of it.
WITH lease AS (SELECT FROM tightrope_lease WHERE experiment = $1 AND term = $2 FOR KEY SHARE)
INSERT INTO tightrope_journal (experiment, position, time, kind, event_id, data)
SELECT $1, * FROM unnest($3::bigint[], $4::bigint[], $5::smallint[], $6::text[], $7::bytea[])
WHERE EXISTS (SELECT FROM lease)

-- append_all
WITH lease AS (SELECT FROM tightrope_lease WHERE experiment = $1 AND term = $2 FOR KEY SHARE),
written AS (
  INSERT INTO tightrope_journal (experiment, position, time, kind, event_id, data)
  SELECT $1, * FROM unnest($3::bigint[], $4::bigint[], $5::smallint[], $6::text[], $7::bytea[])
  WHERE EXISTS (SELECT FROM lease)
),
kept AS (
  INSERT INTO tightrope_snapshot (experiment, position, time, digest, label, state)
  SELECT $1, * FROM unnest($8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::bytea[])
  WHERE EXISTS (SELECT FROM lease)
  ON CONFLICT (experiment, position) DO UPDATE SET digest = excluded.digest, label = excluded.label, state = excluded.state
),
dropped AS (
  DELETE FROM tightrope_snapshot
  WHERE experiment = $1 AND position = ANY($13::bigint[]) AND EXISTS (SELECT FROM lease)
)
SELECT FROM lease

-- find
SELECT position, time, kind, event_id, data FROM tightrope_journal
WHERE experiment = $1 AND event_id = ANY($2) AND kind <= {last_by_event}
ORDER BY position

-- events
SELECT event_id FROM tightrope_journal
WHERE experiment = %s AND kind <= {last_by_event} AND event_id > %s
ORDER BY event_id LIMIT 2000

-- next_term
WITH held AS (SELECT experiment FROM tightrope_lease WHERE experiment = %s AND holder = %s FOR UPDATE)
UPDATE tightrope_lease lease SET term = lease.term + 1
FROM held WHERE lease.experiment = held.experiment
RETURNING lease.term

-- probe
INSERT INTO tightrope_probe AS old VALUES (%s, 1) ON CONFLICT (experiment) DO UPDATE SET count = old.count + 1

-- enter
INSERT INTO tightrope_lease (experiment) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING

-- look
-- Of a connection of another role one sees the number alone.
SELECT experiment, holder, term, beat, EXISTS (
  SELECT FROM pg_stat_activity one WHERE one.pid = lease.pid AND coalesce(one.backend_start = lease.connected, true)
)
FROM tightrope_lease lease WHERE experiment = ANY(%s)

-- take
WITH seen AS (SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS seen (experiment, term, beat)),
free AS (
  SELECT lease.experiment FROM tightrope_lease lease JOIN seen USING (experiment, term, beat)
  ORDER BY experiment FOR UPDATE OF lease
)
UPDATE tightrope_lease lease SET holder = %s, term = lease.term + 1, pid = pg_backend_pid(),
  connected = (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())
FROM free WHERE lease.experiment = free.experiment AND (SELECT count(*) FROM free) = %s

-- beat
WITH held AS (
  SELECT experiment FROM tightrope_lease WHERE experiment = ANY(%s) AND holder = %s ORDER BY experiment FOR NO KEY UPDATE
)
UPDATE tightrope_lease lease SET beat = beat + 1 FROM held WHERE lease.experiment = held.experiment

-- give_back
UPDATE tightrope_lease SET holder = NULL WHERE experiment = ANY(%s) AND holder = %s
