-- Rows of a run.
--
-- Locks the row of the run (FOR KEY SHARE), then rows of `payload` that change, and those that `make_ready` locks. One call for a batch of
-- lines; payloads that did not change are not written.

-- Adds rows of a run, each path once, and replaces the payloads of known ones. Returns false if the run is not known.
CREATE OR REPLACE FUNCTION ingest(of_fetcher bigint, of_run bigint, paths text[], payloads text[], jitters integer[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    added text[];
BEGIN
    PERFORM 1 FROM run AS r WHERE r.fetcher_id = of_fetcher AND r.run_started = of_run AND NOT r.is_deleted FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Each path is looked up by itself (OFFSET 0): without statistics, the planner expects one row of the run and reads them all.
    UPDATE payload AS p SET payload = t.payload
    FROM unnest(paths, payloads) AS t (path, payload), LATERAL (
        SELECT l.payload_id FROM listing AS l
        WHERE l.attr_path = t.path AND l.fetcher_id = of_fetcher AND l.run_started = of_run OFFSET 0) AS l
    WHERE p.payload_id = l.payload_id AND p.payload <> t.payload;
    WITH new AS MATERIALIZED (
        SELECT t.path, t.payload, t.jitter, nextval('payload_payload_id_seq') AS payload_id
        FROM unnest(paths, payloads, jitters) AS t (path, payload, jitter)
        WHERE NOT EXISTS (SELECT 1 FROM listing AS l
                          WHERE l.attr_path = t.path AND l.fetcher_id = of_fetcher AND l.run_started = of_run OFFSET 0)
    ), stored AS (
        INSERT INTO payload (payload_id, payload) SELECT new.payload_id, new.payload FROM new
    ), listed AS (
        INSERT INTO listing (attr_path, fetcher_id, run_started, payload_id, order_jitter)
        SELECT new.path, of_fetcher, of_run, new.payload_id, new.jitter FROM new
        RETURNING attr_path
    )
    SELECT array_agg(listed.attr_path) INTO added FROM listed;
    IF added IS NOT NULL THEN
        PERFORM make_ready(added);
    END IF;
    RETURN true;
END
$$;
