-- Last statement of each transaction.
--
-- Locks only rows that it adds, and tries the advisory lock of the sessions that wait: if it gets it, no other session waits
-- and it sends no notification. Transactions with notifications commit one at a time.

-- Lock of the sessions whose workers wait for rows of other sessions.
CREATE OR REPLACE FUNCTION waiting_lock() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT hashtextextended('$schema waiting', 0)
$$;

-- Lock of the sessions whose workers have asked a short time ago.
CREATE OR REPLACE FUNCTION workers_lock() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT hashtextextended('$schema workers', 0)
$$;

-- Called at the end of each transaction: adds the slots that it has freed, and tells sessions that wait the smallest key that it has added to
-- `ready`.
CREATE OR REPLACE FUNCTION before_commit() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    added text := nullif(current_setting('orchestrator.added', true), '');
    freed integer[] := freed_slots();
BEGIN
    IF freed <> '{}' THEN
        INSERT INTO slot (class) SELECT c.class FROM generate_subscripts(freed, 1) AS c (class), generate_series(1, freed[c.class]);
    END IF;
    -- Own locks do not conflict, and a session that begins to wait meanwhile looks for rows once more.
    IF added IS NOT NULL AND NOT pg_try_advisory_xact_lock(waiting_lock()) THEN
        PERFORM pg_notify('$schema', added);
    END IF;
END
$$;
