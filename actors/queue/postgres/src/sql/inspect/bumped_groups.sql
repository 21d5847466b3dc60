-- Common table expression `bumped`: the first group of each bumped path that is neither held nor limited, by numbers from 1. Needs
-- `open_slots`. `$1` as there.
--
-- Locks nothing. Few paths are bumped, and their rows are found by path.
bumped AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY b.number) AS bump_order, g.*
    FROM bump AS b CROSS JOIN LATERAL (
        SELECT g.* FROM ready_groups(ARRAY[b.attr_path]) AS g JOIN open_slots AS p USING (class)
        WHERE p.slots > 0 ORDER BY g.fetcher_id LIMIT 1) AS g
    WHERE b.handout_id IS NULL AND NOT EXISTS (
        SELECT 1 FROM in_flight AS h WHERE h.attr_path = b.attr_path AND h.is_held AND h.started >= $1))
