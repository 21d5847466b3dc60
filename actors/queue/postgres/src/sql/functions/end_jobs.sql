-- Ends of jobs.
--
-- Locks rows of `in_flight` in the order of paths, then rows of `log`, `bump` and `offer`, and those that `free_slots`, `remove_offered` and
-- `make_ready` lock. One call for all ends of a batch.

-- Records the ends of jobs in order (CONTRACT QO06); a row for each path that was ever handed out.
CREATE OR REPLACE FUNCTION end_jobs(paths text[], codes bigint[], at bigint)
RETURNS TABLE (number bigint, seconds bigint, owner text, claim text) LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    early bigint[];
    starts bigint[];
    ended record;
BEGIN
    SELECT array_agg(f.handout_id), array_agg(f.handout_id) FILTER (WHERE f.delivered <= $pending) INTO ids, early FROM (
        SELECT f.handout_id, f.delivered FROM in_flight AS f WHERE f.attr_path = ANY (paths) ORDER BY f.attr_path FOR UPDATE) AS f;
    -- Not joined with the paths: a plan that is made while `log` has few rows would read all of it.
    WITH ended AS (
        UPDATE log AS l SET finished = at, exit_code = codes[(SELECT max(n) FROM unnest(array_positions(paths, l.attr_path)) AS n)]
        WHERE l.attr_path = ANY (paths) RETURNING l.attr_path, l.started
    )
    SELECT array_agg(e.started ORDER BY t.n) INTO starts
    FROM unnest(paths) WITH ORDINALITY AS t (path, n) LEFT JOIN ended AS e ON e.attr_path = t.path;
    INSERT INTO failure (attr_path, started, finished, exit_code)
    SELECT t.path, t.started, at, t.code FROM unnest(paths, codes, starts) WITH ORDINALITY AS t (path, code, started, n)
    WHERE t.code <> 0 AND t.started IS NOT NULL ORDER BY t.n;
    PERFORM free_slots(ids);
    IF early IS NOT NULL THEN
        -- A repeated DONE of an earlier hand-out, maybe: nobody may have this one.
        UPDATE in_flight AS f SET is_held = false, class = 0, delivered = $done_first WHERE f.handout_id = ANY (early);
    END IF;
    DELETE FROM in_flight AS f WHERE f.handout_id = ANY (ids) AND f.delivered >= $pending;
    DELETE FROM bump AS b WHERE b.attr_path = ANY (paths) AND b.handout_id IS NOT NULL;
    RETURN QUERY SELECT t.n, at - t.started, NULL::text, NULL::text
        FROM unnest(starts) WITH ORDINALITY AS t (started, n) WHERE t.started IS NOT NULL;
    FOR ended IN
        UPDATE offer AS o SET state = 2, finished = at, exit_code = codes[array_position(paths, o.attr_path)],
            seconds = at - starts[array_position(paths, o.attr_path)]
        WHERE o.attr_path = ANY (paths) AND o.state = 1
        RETURNING array_position(paths, o.attr_path)::bigint AS n, o.attr_path AS path, o.fetcher_id, o.claim
    LOOP
        RETURN QUERY SELECT ended.n, NULL::bigint, f.name, ended.claim FROM fetcher AS f WHERE f.fetcher_id = ended.fetcher_id;
        PERFORM remove_offered(ended.path, ended.fetcher_id);
    END LOOP;
    PERFORM make_ready(paths);
END
$$;
