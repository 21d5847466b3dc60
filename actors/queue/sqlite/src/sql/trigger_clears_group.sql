-- Removes a group from every position that its rows allow. Each is found by the primary key.
DELETE FROM orchestrator_group
WHERE (fetcher_id, run_started, held, started_key, jitter_key, attr_path) IN (
    SELECT q.fetcher_id, q.fetcher_run_started, h.held, ifnull(q.last_started, $min), ifnull(q.order_jitter, $min),
        q.attr_path
    FROM queue AS q CROSS JOIN ($held_rows) AS h
    WHERE q.attr_path = $attr AND ($fetcher IS NULL OR q.fetcher_id = $fetcher));
