-- Removes a group from every position that its rows allow. Each is found by the primary key.
DELETE FROM orchestrator_ready
WHERE (fetcher_id, run_started, class, is_held, started_key, jitter_key, attr_path) IN (
    SELECT q.fetcher_id, q.fetcher_run_started, c.class, h.is_held, ifnull(q.last_started, $min), ifnull(q.order_jitter, $min),
        q.attr_path
    FROM queue AS q CROSS JOIN ($classes) AS c CROSS JOIN (SELECT 0 AS is_held UNION ALL SELECT 1) AS h
    WHERE q.attr_path = $attr AND ($fetcher IS NULL OR q.fetcher_id = $fetcher));
