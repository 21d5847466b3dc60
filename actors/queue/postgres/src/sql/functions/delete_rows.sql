-- Rows of a deleted run.
--
-- Locks rows of `listing` and `payload`, and those that `make_ready` and `drop_ready` lock; with the last row, those of the run and of its
-- fetcher. The index `listing_of_run` gives the rows in the order of paths.

-- Removes up to `most` rows of a deleted run, and the run with its last row. Returns the number of removed rows.
CREATE OR REPLACE FUNCTION delete_rows(of_fetcher bigint, of_run bigint, most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    paths text[];
BEGIN
    paths := ARRAY(SELECT l.attr_path FROM listing AS l WHERE l.fetcher_id + 0 = of_fetcher AND l.run_started + 0 = of_run
                   ORDER BY l.attr_path LIMIT most);
    WITH gone AS (
        DELETE FROM listing AS l WHERE l.attr_path = ANY (paths) AND l.fetcher_id = of_fetcher AND l.run_started = of_run
        RETURNING l.attr_path, l.payload_id
    ), emptied AS (
        DELETE FROM payload AS p USING gone WHERE p.payload_id = gone.payload_id
    )
    SELECT array_agg(gone.attr_path) INTO paths FROM gone;
    IF paths IS NOT NULL THEN
        PERFORM make_ready(paths);
        PERFORM drop_ready(paths);
        RETURN cardinality(paths);
    END IF;
    DELETE FROM run AS r WHERE r.fetcher_id = of_fetcher AND r.run_started = of_run;
    DELETE FROM fetcher AS f WHERE f.fetcher_id = of_fetcher AND NOT EXISTS (SELECT 1 FROM run AS r WHERE r.fetcher_id = of_fetcher);
    RETURN 0;
END
$$;
