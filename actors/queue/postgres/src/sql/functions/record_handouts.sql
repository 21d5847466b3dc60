-- Records of jobs that are handed out.
--
-- Locks rows of `listing`, `log`, `bump` and `offer` of these jobs, in this order; the rows of `in_flight` are those that the same transaction has
-- added. Fast because each table is changed by one statement for all jobs, which finds its rows by paths.

-- Marks the rows of hand-outs in a range as handed out, and records the hand-outs in the log, in bumps and offers, and as attempts if these are
-- kept. `connections` are those of the workers that asked.
CREATE OR REPLACE FUNCTION record_handouts(first_id bigint, last_id bigint, at bigint, connections text[], keeps_attempts boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    marked integer;
BEGIN
    UPDATE listing AS l SET is_dequeued = true FROM handed_out(first_id, last_id) AS f
    WHERE l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id AND l.run_started = ANY (f.runs);
    GET DIAGNOSTICS marked = ROW_COUNT;
    IF marked < (SELECT sum(cardinality(f.runs)) FROM handed_out(first_id, last_id) AS f) THEN
        PERFORM drop_removed(first_id, last_id);
    END IF;
    INSERT INTO log (attr_path, started)
    SELECT f.attr_path, at FROM handed_out(first_id, last_id) AS f
    ON CONFLICT (attr_path) DO UPDATE SET started = at, finished = NULL, exit_code = NULL;
    IF keeps_attempts THEN
        INSERT INTO attempt (started, handout_id, attr_path, fetcher, connection, previous_started, previous_finished, previous_exit_code)
        SELECT at, f.handout_id, f.attr_path, n.name, connections[row_number() OVER (ORDER BY f.handout_id)],
            f.previous_started, f.previous_finished, f.previous_exit_code
        FROM handed_out(first_id, last_id) AS f JOIN fetcher AS n USING (fetcher_id);
    END IF;
    DELETE FROM bump AS b USING handed_out(first_id, last_id) AS f
    WHERE b.attr_path = f.attr_path AND b.handout_id IS NOT NULL;
    UPDATE bump AS b SET handout_id = f.handout_id FROM handed_out(first_id, last_id) AS f
    WHERE b.attr_path = f.attr_path;
    -- Bumps of which nothing waits, before the last one that was looked for.
    DELETE FROM bump AS b WHERE b.handout_id IS NULL AND NOT EXISTS (SELECT 1 FROM ready_groups(ARRAY[b.attr_path]))
        AND ((SELECT count(*) FROM bump AS u WHERE u.handout_id BETWEEN first_id AND last_id) < cardinality(connections)
             OR b.number < (SELECT max(u.number) FROM bump AS u WHERE u.handout_id BETWEEN first_id AND last_id));
    UPDATE offer AS o SET state = (o.fetcher_id = f.fetcher_id)::integer FROM handed_out(first_id, last_id) AS f
    WHERE o.attr_path = f.attr_path AND o.state < 2;
END
$$;
