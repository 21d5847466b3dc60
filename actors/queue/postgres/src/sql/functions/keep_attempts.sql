-- Partitions of attempts.
--
-- Locks the row `version` of `property`, so that one instance at a time does it and no other one waits; then `attempt_other` (ACCESS
-- EXCLUSIVE) while a partition is new. Old attempts leave with their partition, without a delete of rows.

-- Makes the partitions of attempts for the day of `at` and the next one, and drops the oldest ones of which no row is among the newest
-- `most`. Does nothing while another instance does it.
CREATE OR REPLACE FUNCTION keep_attempts(at bigint, most bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    day bigint := at / 86400 * 86400;
    kept bigint := 0;
    rows bigint;
    part record;
BEGIN
    PERFORM 1 FROM property AS p WHERE p.name = 'version' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOREACH day IN ARRAY ARRAY[day, day + 86400] LOOP
        IF to_regclass(format('attempt_%s', day)) IS NULL THEN
            -- Attempts that came before their partition are moved.
            LOCK TABLE attempt_other IN ACCESS EXCLUSIVE MODE;
            EXECUTE format('CREATE TABLE $schema.attempt_%s (LIKE attempt)', day);
            EXECUTE format('WITH moved AS (DELETE FROM attempt_other WHERE started >= %s AND started < %s RETURNING *)
                            INSERT INTO attempt_%s SELECT * FROM moved', day, day + 86400, day);
            EXECUTE format('ALTER TABLE attempt ATTACH PARTITION attempt_%s FOR VALUES FROM (%s) TO (%s)', day, day, day + 86400);
        END IF;
    END LOOP;
    FOR part IN
        SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'attempt'::regclass AND c.relname ~ '^attempt_\d+$'
        ORDER BY substr(c.relname, 9)::bigint DESC
    LOOP
        IF kept >= most AND substr(part.relname, 9)::bigint < at / 86400 * 86400 THEN
            EXECUTE format('DROP TABLE %I', part.relname);
        ELSE
            EXECUTE format('SELECT count(*) FROM %I', part.relname) INTO rows;
            kept := kept + rows;
        END IF;
    END LOOP;
END
$$;
