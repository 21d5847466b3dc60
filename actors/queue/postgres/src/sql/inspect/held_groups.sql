-- The first held job that waits, and the number of them up to `$1`.
--
-- Locks nothing.
WITH held AS MATERIALIZED (
    SELECT h.started, g.order_jitter, g.attr_path FROM in_flight AS h CROSS JOIN LATERAL ready_groups(ARRAY[h.attr_path]) AS g
    WHERE h.is_held ORDER BY CASE WHEN h.is_held THEN h.started END, g.order_jitter, g.attr_path LIMIT $1)
SELECT attr_path, started, (SELECT count(*) FROM held) FROM held ORDER BY started, order_jitter, attr_path LIMIT 1
