-- Common table expression `free`: up to `$2` first groups of each class that are not held, of paths like `$3`. Each path once in a class. Needs
-- `open_slots`. `$1` as there.
--
-- Locks nothing. Rows of `ready` may be outdated, but not those of groups that wait and are not held; the indices `ready_order` and
-- `in_flight_held` give the first ones.
free AS (
    SELECT p.class, p.slots, w.* FROM open_slots AS p CROSS JOIN LATERAL (
        (SELECT r.started_key, g.order_jitter, g.attr_path, g.fetcher_id, g.run_started, g.payload_id
         FROM ready AS r CROSS JOIN LATERAL (
             SELECT * FROM ready_groups(ARRAY[r.attr_path]) AS g WHERE g.class = r.class ORDER BY g.fetcher_id LIMIT 1) AS g
         WHERE r.class = p.class AND path_matches($3, r.attr_path)
             AND NOT EXISTS (SELECT 1 FROM in_flight AS h WHERE h.attr_path = r.attr_path AND h.is_held)
         ORDER BY r.started_key, r.order_jitter, r.attr_path LIMIT $2)
        UNION ALL
        (SELECT h.started, g.order_jitter, g.attr_path, g.fetcher_id, g.run_started, g.payload_id
         FROM in_flight AS h CROSS JOIN LATERAL (
             SELECT * FROM ready_groups(ARRAY[h.attr_path]) AS g WHERE g.class = p.class ORDER BY g.fetcher_id LIMIT 1) AS g
         WHERE CASE WHEN h.is_held THEN h.started END < $1 AND path_matches($3, h.attr_path)
         ORDER BY CASE WHEN h.is_held THEN h.started END, g.order_jitter, g.attr_path LIMIT $2)) AS w)
