-- Groups of the path `?1` that wait (CONTRACT QO01). Rows are found by path.
SELECT q.fetcher_id, q.last_started, q.order_jitter, f.name, q.fetcher_run_started, q.rowid
FROM queue AS q JOIN fetchers AS f USING (fetcher_id)
WHERE q.attr_path = ?1 AND q.is_dequeued = 0
    AND NOT EXISTS (
        SELECT 1 FROM orchestrator_deleted_run AS d
        WHERE d.fetcher_id = q.fetcher_id AND d.run_started = q.fetcher_run_started)
    AND NOT EXISTS (
        SELECT 1 FROM queue AS newer
        WHERE newer.attr_path = ?1 AND newer.fetcher_id = q.fetcher_id
            AND newer.fetcher_run_started > q.fetcher_run_started
            AND NOT EXISTS (
                SELECT 1 FROM orchestrator_deleted_run AS d
                WHERE d.fetcher_id = newer.fetcher_id AND d.run_started = newer.fetcher_run_started))
ORDER BY q.fetcher_id
