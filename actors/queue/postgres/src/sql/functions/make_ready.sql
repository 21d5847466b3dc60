-- Paths that become available.
--
-- Locks the rows of `in_flight` of these paths that are held (FOR SHARE), in the order of paths, and then the rows of `ready`, in the order
-- of paths and classes. One statement for all paths; a row of `ready` that is right already gets no new version.

-- Adds the paths that wait and are not in flight to `ready`, and lowers the scan starts of this session. The lock keeps a path in flight until
-- this transaction ends, so that its end, which follows, sees the rows of this transaction.
CREATE OR REPLACE FUNCTION make_ready(paths text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lowest record;
BEGIN
    FOR lowest IN
        WITH held AS MATERIALIZED (
            SELECT f.attr_path FROM in_flight AS f WHERE f.attr_path = ANY (paths) AND f.is_held ORDER BY f.attr_path FOR SHARE
        ), added AS (
            INSERT INTO ready AS known (attr_path, class, started_key, order_jitter)
            SELECT DISTINCT g.attr_path, g.class, coalesce(log.started, -9223372036854775808), g.order_jitter
            -- With a limit, the plan that is made while `log` is empty reads one row of it, too, and never all.
            FROM ready_groups(paths) AS g LEFT JOIN LATERAL (SELECT * FROM log AS l WHERE l.attr_path = g.attr_path LIMIT 1) AS log ON true
            WHERE NOT EXISTS (SELECT 1 FROM held WHERE held.attr_path = g.attr_path)
            ORDER BY g.attr_path, g.class
            ON CONFLICT (attr_path, class) DO UPDATE SET started_key = excluded.started_key
                WHERE known.started_key <> excluded.started_key
            RETURNING known.class, known.started_key, known.order_jitter
        )
        SELECT a.class, min(ARRAY[a.started_key, a.order_jitter]) AS key FROM added AS a GROUP BY a.class
    LOOP
        PERFORM set_config('orchestrator.scan_start_' || lowest.class, least(lowest.key, scan_start_of(lowest.class))::text, false),
            set_config('orchestrator.added',
                least(lowest.key, nullif(current_setting('orchestrator.added', true), '')::bigint[])::text, true);
    END LOOP;
END
$$;
