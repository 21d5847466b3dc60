-- A path that is made available again.
--
-- Locks its row of `in_flight`, then rows of `listing`, `log`, `bump` and `offer`, and those that `free_slots` and `make_ready` lock.

-- Makes all rows of a path available, and ends its hold. Returns the changed rows, and whether it was in flight.
CREATE OR REPLACE FUNCTION requeue(path text, at bigint) RETURNS TABLE (changed bigint, was_in_flight boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    id bigint;
BEGIN
    SELECT f.handout_id INTO id FROM in_flight AS f WHERE f.attr_path = path FOR UPDATE;
    UPDATE listing AS l SET is_dequeued = false FROM run AS r
    WHERE l.attr_path = path AND l.is_dequeued
        AND r.fetcher_id = l.fetcher_id AND r.run_started = l.run_started AND NOT r.is_deleted;
    GET DIAGNOSTICS changed = ROW_COUNT;
    UPDATE log SET finished = at WHERE attr_path = path AND finished IS NULL;
    was_in_flight := FOUND;
    PERFORM free_slots(ARRAY[id]);
    DELETE FROM in_flight AS f WHERE f.attr_path = path;
    DELETE FROM bump AS b WHERE b.attr_path = path AND b.handout_id IS NOT NULL;
    UPDATE offer SET state = 0 WHERE attr_path = path AND state = 1;
    PERFORM make_ready(ARRAY[path]);
    RETURN NEXT;
END
$$;
