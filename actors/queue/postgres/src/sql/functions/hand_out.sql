-- Hand-outs: one call for all workers of a batch.
--
-- Locks what `end_holds`, then `take_jobs`, then `record_handouts` lock. Fast because each statement is for all jobs, plans are kept for the
-- session, and no row of `ready` before the scan starts is read.

-- Hands out up to one job for each connection, in order (CONTRACT QO01 to QO05). Hand-outs are numbered from `first_id`, with gaps. Scan
-- starts are lowered to `added`, if there is one. Ends before a payload with which those of this hand-out and `unsent` bytes would be longer than
-- `bytes_max`, unless it is the only one: a last row without a job tells that.
CREATE OR REPLACE FUNCTION hand_out(connections text[], first_id bigint, at bigint, hold bigint, keeps_attempts boolean, added bigint[],
    unsent bigint, bytes_max bigint)
RETURNS TABLE (handout_id bigint, attr_path text, payload text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held bigint := unsent;
    last_id bigint := (((first_id >> 32) + 1) << 32) - 1;
    next record;
BEGIN
    IF added IS NOT NULL THEN
        PERFORM lower_scan_starts(added);
    END IF;
    IF is_paused() THEN
        RETURN;
    END IF;
    PERFORM end_holds(at, hold);
    IF take_jobs(cardinality(connections), first_id, at) = 0 THEN
        DELETE FROM bump AS b WHERE b.handout_id IS NULL AND NOT EXISTS (SELECT 1 FROM ready_groups(ARRAY[b.attr_path]));
        RETURN;
    END IF;
    PERFORM record_handouts(first_id, last_id, at, connections, keeps_attempts);
    FOR next IN
        SELECT f.handout_id, f.attr_path, p.payload
        FROM handed_out(first_id, last_id) AS f
            JOIN listing AS l ON l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id
                AND l.run_started = f.runs[1]
            JOIN payload AS p ON p.payload_id = l.payload_id
        ORDER BY f.handout_id
    LOOP
        -- The length is known without reading the payload.
        IF held > 0 AND held + octet_length(next.payload) > bytes_max THEN
            PERFORM undo_handouts(ARRAY(SELECT f.handout_id FROM handed_out(next.handout_id, last_id) AS f));
            RETURN QUERY SELECT NULL::bigint, NULL::text, NULL::text;
            RETURN;
        END IF;
        held := held + octet_length(next.payload);
        RETURN QUERY SELECT next.handout_id, next.attr_path, next.payload;
    END LOOP;
END
$$;
