-- First `$2` groups that wait and were not tried since `$1`: those last handed out before, then those listed before and never handed out.
--
-- Locks nothing. The second part is not read if the first has enough rows.
(SELECT g.attr_path, f.name, g.run_started, log.started, g.added
 FROM log JOIN {newest} AS g USING (attr_path) JOIN fetcher AS f USING (fetcher_id)
 WHERE log.started < $1
 ORDER BY log.started, g.order_jitter, g.attr_path, g.fetcher_id LIMIT $2)
UNION ALL
(SELECT g.attr_path, f.name, g.run_started, NULL, g.added
 FROM {newest} AS g JOIN fetcher AS f USING (fetcher_id)
 WHERE g.added < $1 AND NOT g.is_dequeued AND NOT EXISTS (SELECT 1 FROM log WHERE log.attr_path = g.attr_path)
 ORDER BY g.fetcher_id, g.run_started, {class}, g.order_jitter, g.attr_path LIMIT $2)
LIMIT $2
