-- Hand-outs whose rows another transaction removed meanwhile.
--
-- The rows of `in_flight` are those that the same transaction has added. Locks rows of `listing` and those that `free_slots` and `make_ready`
-- lock. Rare: called only if the hand-out found fewer rows of `listing` than it has chosen.

-- Drops new hand-outs of a range whose newest row another transaction removed.
CREATE OR REPLACE FUNCTION drop_removed(first_id bigint, last_id bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    paths text[];
    ids bigint[];
BEGIN
    SELECT array_agg(f.attr_path), array_agg(f.handout_id) INTO paths, ids FROM handed_out(first_id, last_id) AS f
    WHERE NOT EXISTS (
        SELECT 1 FROM listing AS l
        WHERE l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id AND l.run_started = f.runs[1]);
    UPDATE listing AS l SET is_dequeued = false FROM in_flight AS f
    WHERE f.handout_id = ANY (ids) AND l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id AND l.run_started = ANY (f.runs);
    PERFORM free_slots(ids);
    DELETE FROM in_flight AS f WHERE f.handout_id = ANY (ids);
    PERFORM make_ready(paths);
END
$$;
