-- What the service's role may do. It appends to journals, it never changes or deletes a row; snapshots can be made again from them.
GRANT USAGE ON SCHEMA {schema} TO {role};
REVOKE ALL ON tightrope_format, tightrope_journal, tightrope_snapshot, tightrope_probe, tightrope_lease FROM PUBLIC, {role};
GRANT SELECT ON tightrope_format TO {role};
GRANT SELECT, INSERT ON tightrope_journal TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON tightrope_snapshot TO {role};
GRANT SELECT, INSERT, UPDATE ON tightrope_probe, tightrope_lease TO {role};
GRANT EXECUTE ON FUNCTION tightrope_erase(text, bigint, bigint[]) TO {role};
