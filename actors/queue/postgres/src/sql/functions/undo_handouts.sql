-- Hand-outs that never were.
--
-- Locks rows of `in_flight` in the order of paths, then rows of `listing`, `log`, `attempt`, `bump` and `offer`, and those that `free_slots`
-- and `make_ready` lock.

-- Undoes hand-outs of an incarnation, newest first; returns how many (CONTRACT QR27). After a DONE only their rows wait again.
CREATE OR REPLACE FUNCTION undo_handouts(ids bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    paths text[];
    known bigint[];
    open bigint[];
BEGIN
    SELECT array_agg(f.attr_path), array_agg(f.handout_id), array_agg(f.handout_id) FILTER (WHERE f.delivered >= $pending) INTO paths, known, open FROM (
        SELECT f.attr_path, f.handout_id, f.delivered FROM in_flight AS f WHERE f.handout_id = ANY (ids) ORDER BY f.attr_path FOR UPDATE) AS f;
    IF paths IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE listing AS l SET is_dequeued = false FROM in_flight AS f
    WHERE f.handout_id = ANY (known) AND l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id AND l.run_started = ANY (f.runs);
    DELETE FROM log USING in_flight AS f
    WHERE f.handout_id = ANY (open) AND NOT f.had_log AND log.attr_path = f.attr_path;
    UPDATE log SET started = f.previous_started, finished = f.previous_finished, exit_code = f.previous_exit_code
    FROM in_flight AS f WHERE f.handout_id = ANY (open) AND f.had_log AND log.attr_path = f.attr_path;
    DELETE FROM attempt AS a WHERE a.handout_id = ANY (open);
    UPDATE bump SET handout_id = NULL WHERE handout_id = ANY (known);
    UPDATE offer SET state = 0 WHERE attr_path = ANY (paths) AND state = 1;
    PERFORM free_slots(known);
    DELETE FROM in_flight AS f WHERE f.handout_id = ANY (known);
    PERFORM make_ready(paths);
    RETURN cardinality(known);
END
$$;
