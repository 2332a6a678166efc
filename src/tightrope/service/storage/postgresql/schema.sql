-- The tables of all experiments. `schema.py` fills in what is in braces.
SET LOCAL client_min_messages = warning;
SELECT pg_advisory_xact_lock(hashtext('tightrope schema'));
CREATE TABLE IF NOT EXISTS tightrope_format (version integer PRIMARY KEY);
CREATE TABLE IF NOT EXISTS tightrope_journal (
  experiment text NOT NULL, position bigint NOT NULL, time bigint NOT NULL, kind smallint NOT NULL, event_id text,
  data bytea NOT NULL, PRIMARY KEY (experiment, position)
);
CREATE INDEX IF NOT EXISTS tightrope_journal_event ON tightrope_journal (experiment, event_id)
  WHERE kind <= {last_by_event};
CREATE INDEX IF NOT EXISTS tightrope_journal_kind ON tightrope_journal (experiment, kind, position)
  WHERE kind > {last_by_event};
CREATE TABLE IF NOT EXISTS tightrope_snapshot (
  experiment text NOT NULL, position bigint NOT NULL, time bigint NOT NULL, digest text NOT NULL, label text,
  state bytea NOT NULL, PRIMARY KEY (experiment, position)
);
CREATE TABLE IF NOT EXISTS tightrope_probe (experiment text PRIMARY KEY, count bigint NOT NULL);
-- Who writes: see `lease.py`.
CREATE TABLE IF NOT EXISTS tightrope_lease (
  experiment text PRIMARY KEY, term bigint NOT NULL DEFAULT 0, beat bigint NOT NULL DEFAULT 0, holder text, pid integer,
  connected timestamptz
);
INSERT INTO tightrope_format SELECT {format} WHERE NOT EXISTS (SELECT FROM tightrope_format);

-- What is left of a row (MessagePack: link, open part, salt, sealed part) is link, open part, SHA-256 of salt and sealed part.
-- What has no sealed part, or none any more, stays as it is. The caller names rows and nothing else.
CREATE OR REPLACE FUNCTION tightrope_erase(of_experiment text, in_term bigint, positions bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $erase$
DECLARE
  old bytea; at integer; size integer; sealed integer; one bigint; done bigint := 0;
BEGIN
  PERFORM FROM tightrope_lease WHERE experiment = of_experiment AND term = in_term FOR KEY SHARE;
  IF NOT FOUND THEN
    RETURN -1;
  END IF;
  FOREACH one IN ARRAY positions LOOP
    SELECT data INTO old FROM tightrope_journal WHERE experiment = of_experiment AND position = one FOR UPDATE;
    IF NOT FOUND THEN
      CONTINUE;
    END IF;
    done := done + 1;
    IF get_byte(old, 0) <> 148 THEN
      CONTINUE;
    END IF;
    at := 1;
    FOR part IN 1..4 LOOP
      CASE get_byte(old, at)
        WHEN 196 THEN size := get_byte(old, at + 1); at := at + 2;
        WHEN 197 THEN size := get_byte(old, at + 1) * 256 + get_byte(old, at + 2); at := at + 3;
        WHEN 198 THEN
          size := get_byte(old, at + 1) * 16777216 + get_byte(old, at + 2) * 65536 + get_byte(old, at + 3) * 256
            + get_byte(old, at + 4);
          at := at + 5;
        ELSE RAISE EXCEPTION 'row % is no entry of a journal', one;
      END CASE;
      -- Where the open part ends, and where salt and sealed part begin.
      IF part = 2 THEN
        sealed := at + size;
      ELSIF part = 3 AND size <> 16 THEN
        RAISE EXCEPTION 'row % is no entry of a journal', one;
      END IF;
      IF part < 4 THEN
        at := at + size;
      END IF;
    END LOOP;
    IF at + size <> length(old) THEN
      RAISE EXCEPTION 'row % is no entry of a journal', one;
    END IF;
    UPDATE tightrope_journal SET data = decode('93', 'hex') || substring(old FROM 2 FOR sealed - 1) || decode('c420', 'hex')
      || sha256(substring(old FROM sealed + 3 FOR 16) || substring(old FROM at + 1))
      WHERE experiment = of_experiment AND position = one;
  END LOOP;
  RETURN done;
END $erase$;
REVOKE ALL ON FUNCTION tightrope_erase(text, bigint, bigint[]) FROM PUBLIC;
