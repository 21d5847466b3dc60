-- Deliveries of jobs.
--
-- Locks the rows of `in_flight` of these hand-outs. One call for all deliveries of a batch.

-- Records deliveries; returns the hand-outs that were not recorded before. A job that is handed out again after its hold, which is over
-- already, is left to `end_holds`.
CREATE OR REPLACE FUNCTION record_deliveries(ids bigint[], redeliver boolean) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        UPDATE in_flight AS f SET delivered = CASE WHEN again.is_so THEN $redeliver ELSE $final END, is_held = f.is_held OR again.is_so
        FROM fetcher AS n, LATERAL (SELECT redeliver OR strpos(n.name, '.') > 0 AS is_so) AS again
        WHERE f.handout_id = ANY (ids) AND f.delivered = $pending AND n.fetcher_id = f.fetcher_id
        RETURNING f.handout_id;
    RETURN QUERY DELETE FROM in_flight AS f WHERE f.handout_id = ANY (ids) AND f.delivered = $done_first RETURNING f.handout_id;
END
$$;
