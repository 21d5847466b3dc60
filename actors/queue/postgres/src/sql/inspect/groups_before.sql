-- Number of the groups of other paths before the path `$4`, last started at `$2` with the jitter `$3`, in the order without bumps; {max} stands
-- for more. `$1` is the earliest start of a job whose hold is not over.
--
-- Locks nothing. The indices `ready_order` and `in_flight_held` give the paths. Rows of `ready` may be outdated, so that those of each path are read,
-- but not if there are too many.
WITH {open_slots}, path_before AS MATERIALIZED (
    SELECT p.class, b.attr_path, b.started_key FROM open_slots AS p CROSS JOIN LATERAL (
        (SELECT r.attr_path, NULL::bigint AS started_key FROM ready AS r
         WHERE r.class = p.class AND (r.started_key, r.order_jitter, r.attr_path) < ($2, $3, $4)
             AND NOT EXISTS (SELECT 1 FROM in_flight AS h WHERE h.attr_path = r.attr_path AND h.is_held)
         ORDER BY r.started_key, r.order_jitter, r.attr_path LIMIT {max})
        UNION ALL
        (SELECT h.attr_path, h.started FROM in_flight AS h
         WHERE CASE WHEN h.is_held THEN h.started END < $1 AND h.started <= $2 LIMIT {max})) AS b
    WHERE p.slots > 0 AND b.attr_path <> $4 LIMIT {max})
SELECT CASE WHEN (SELECT count(*) FROM path_before WHERE started_key IS NULL) >= {max} THEN {max} ELSE least({max}, (
    SELECT count(*) FROM path_before AS b CROSS JOIN LATERAL ready_groups(ARRAY[b.attr_path]) AS g
    WHERE g.class = b.class
        AND (b.started_key IS NULL OR (b.started_key, g.order_jitter, b.attr_path) < ($2, $3, $4)))) END
