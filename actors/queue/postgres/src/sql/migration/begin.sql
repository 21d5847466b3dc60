-- Makes the schema ready for rows: no process may go on that was suspended for long, and attempts of the days before this one, from `oldest` on,
-- have one partition, so that they leave together. The caller has locked the table `instance` (EXCLUSIVE).
UPDATE instance SET incarnation = -incarnation WHERE incarnation > 0;
DELETE FROM incarnation;
INSERT INTO instance (instance, incarnation, host, socket, lease_until, is_locked)
    VALUES ('{instance}', 0, '', '', clock_timestamp(), false) ON CONFLICT DO NOTHING;
DO $$
DECLARE
    today bigint := floor(extract(epoch FROM clock_timestamp()))::bigint / {day_secs} * {day_secs};
    part name;
BEGIN
    FOR part IN SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
                WHERE i.inhparent = 'attempt'::regclass AND c.relname <> 'attempt_other' LOOP
        EXECUTE format('DROP TABLE %I', part);
    END LOOP;
    IF {oldest} < today THEN
        EXECUTE format('CREATE TABLE {schema}.attempt_{oldest} PARTITION OF attempt FOR VALUES FROM ({oldest}) TO (%s)', today);
    END IF;
    PERFORM keep_attempts(today, {max});
END $$;
