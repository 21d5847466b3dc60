-- First `?2` groups last handed out before `?1`. The order index gives them.
SELECT q.attr_path, f.name, q.fetcher_run_started, q.last_started, r.added
FROM queue AS q JOIN fetchers AS f USING (fetcher_id)
    LEFT JOIN orchestrator_run AS r ON r.fetcher_id = q.fetcher_id AND r.run_started = q.fetcher_run_started
WHERE q.last_started < ?1 AND {is_newest}
ORDER BY q.last_started, q.order_jitter, q.attr_path, q.fetcher_id LIMIT ?2
