-- First `$2` groups that were not tried since `$1`: those last handed out before, then those listed before and never handed out. The second part
-- is not read if the first has enough rows.
SELECT * FROM (
    SELECT attr_path, fetcher, run_started, started, added FROM tried WHERE started < $1
    ORDER BY started, order_jitter, attr_path, fetcher_id LIMIT $2) AS t
UNION ALL
SELECT * FROM (
    SELECT attr_path, fetcher, run_started, CAST(NULL AS bigint), added FROM untried WHERE added < $1
    ORDER BY fetcher_id, run_started, class_order, order_jitter, attr_path LIMIT $2) AS u
LIMIT $2
