-- First `?2` rows of the path `?1`, newest runs first. Rows are found by path.
SELECT f.name, q.fetcher_run_started, r.added, q.is_dequeued
FROM queue AS q JOIN fetchers AS f ON f.fetcher_id = q.fetcher_id
    LEFT JOIN orchestrator_run AS r ON r.fetcher_id = q.fetcher_id AND r.run_started = q.fetcher_run_started
WHERE q.attr_path = ?1
    AND NOT EXISTS (
        SELECT 1 FROM orchestrator_deleted_run AS d
        WHERE d.fetcher_id = q.fetcher_id AND d.run_started = q.fetcher_run_started)
ORDER BY q.fetcher_run_started DESC, f.name LIMIT ?2
