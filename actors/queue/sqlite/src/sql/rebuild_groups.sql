-- Computes the table of groups from the original's tables. Scans all rows; newer rows are found by the primary key of `queue`. Rows are added in
-- the order of the table's key, so that each page of it is written once.
DELETE FROM orchestrator_ready;
INSERT INTO orchestrator_ready (fetcher_id, run_started, class, is_held, started_key, jitter_key, attr_path)
SELECT q.fetcher_id, q.fetcher_run_started,
    orchestrator_class(q.attr_path, f.name), log.attr_path IS NOT NULL AND log.finished IS NULL,
    ifnull(q.last_started, {null_key}), ifnull(q.order_jitter, {null_key}), q.attr_path
FROM queue AS q LEFT JOIN log USING (attr_path)
    LEFT JOIN fetchers AS f ON f.fetcher_id = q.fetcher_id
WHERE q.is_dequeued = 0
    AND NOT EXISTS (
        SELECT 1 FROM orchestrator_deleted_run AS d
        WHERE d.fetcher_id = q.fetcher_id AND d.run_started = q.fetcher_run_started)
    AND NOT EXISTS (
        SELECT 1 FROM fetcher_runs AS r JOIN queue AS newer
            ON newer.fetcher_run_started = r.run_started AND newer.fetcher_id = r.fetcher_id
            AND newer.attr_path = q.attr_path
        WHERE r.fetcher_id = q.fetcher_id AND r.run_started > q.fetcher_run_started
            AND NOT EXISTS (
                SELECT 1 FROM orchestrator_deleted_run AS d
                WHERE d.fetcher_id = r.fetcher_id AND d.run_started = r.run_started))
ORDER BY 1, 2, 3, 4, 5, 6, 7;
