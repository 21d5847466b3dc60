-- Runs that files announce.
--
-- Locks the row of `fetcher` if it is new, then that of `run`, and through the keys the rows that these refer to (FOR KEY SHARE). A run that
-- is right already gets no new version.

-- Adds a run or updates whether it is complete (CONTRACT QC05, QC08). Returns 'done'; 'pending' if rows of a deleted run must leave
-- first; otherwise the name of the instance that has the fetcher.
CREATE OR REPLACE FUNCTION upsert_run(of_instance text, fetcher_name text, started bigint, complete boolean, at bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    known fetcher%ROWTYPE;
BEGIN
    SELECT f.* INTO known FROM fetcher AS f WHERE f.name = fetcher_name;
    IF NOT FOUND THEN
        -- Another instance may add it, too.
        INSERT INTO fetcher (name, instance) VALUES (fetcher_name, of_instance) ON CONFLICT DO NOTHING;
        SELECT f.* INTO known FROM fetcher AS f WHERE f.name = fetcher_name;
    END IF;
    IF known.instance <> of_instance THEN
        RETURN known.instance;
    -- A fetcher without a run does not exist for others, so it gets a new number when it returns.
    ELSIF EXISTS (SELECT 1 FROM run AS r WHERE r.fetcher_id = known.fetcher_id AND r.is_deleted AND (
            r.run_started = started
            OR NOT EXISTS (SELECT 1 FROM run AS o WHERE o.fetcher_id = known.fetcher_id AND NOT o.is_deleted))) THEN
        RETURN 'pending';
    END IF;
    INSERT INTO run (fetcher_id, run_started, is_complete, added) VALUES (known.fetcher_id, started, complete, at)
    ON CONFLICT (fetcher_id, run_started) DO UPDATE SET is_complete = excluded.is_complete
        WHERE run.is_complete <> excluded.is_complete;
    RETURN 'done';
END
$$;
