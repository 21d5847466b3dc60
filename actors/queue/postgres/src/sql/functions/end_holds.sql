-- Holds that are over.
--
-- Locks rows of `in_flight`, oldest first and at most 1,000, and skips those that others have locked; then rows of `listing`, `bump`, and
-- those that `free_slots` and `make_ready` lock. Reads the first entry of the index `in_flight_held` if no hold is over.

-- Ends holds that are over, oldest first. Those whose `delivered` is $redeliver wait again (CONTRACT QR28).
CREATE OR REPLACE FUNCTION end_holds(at bigint, hold bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    paths text[];
    ids bigint[];
BEGIN
    SELECT array_agg(e.attr_path), array_agg(e.handout_id) INTO paths, ids FROM (
        SELECT f.attr_path, f.handout_id FROM in_flight AS f
        WHERE CASE WHEN f.is_held THEN f.started END < at - hold
        ORDER BY CASE WHEN f.is_held THEN f.started END LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) AS e;
    IF paths IS NULL THEN
        RETURN;
    END IF;
    UPDATE listing AS l SET is_dequeued = false FROM in_flight AS f
    WHERE f.handout_id = ANY (ids) AND f.delivered = $redeliver
        AND l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id AND l.run_started = ANY (f.runs);
    DELETE FROM bump AS b USING in_flight AS f
    WHERE f.handout_id = ANY (ids) AND f.delivered = $redeliver AND b.handout_id = f.handout_id;
    PERFORM free_slots(ids);
    DELETE FROM in_flight AS f WHERE f.handout_id = ANY (ids) AND f.delivered = $redeliver;
    UPDATE in_flight AS f SET is_held = false, class = 0 WHERE f.handout_id = ANY (ids);
    PERFORM make_ready(paths);
END
$$;
