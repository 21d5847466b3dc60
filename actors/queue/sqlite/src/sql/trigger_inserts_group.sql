-- Inserts a group at its position if it is ready. Rows are found by path.
INSERT INTO orchestrator_ready (fetcher_id, run_started, class, is_held, started_key, jitter_key, attr_path)
SELECT q.fetcher_id, q.fetcher_run_started, 0,
    EXISTS (SELECT 1 FROM log WHERE log.attr_path = $attr AND log.finished IS NULL),
    ifnull(q.last_started, $min), ifnull(q.order_jitter, $min), q.attr_path
FROM queue AS q
WHERE q.attr_path = $attr AND ($fetcher IS NULL OR q.fetcher_id = $fetcher) AND q.is_dequeued = 0
    AND NOT EXISTS (
        SELECT 1 FROM orchestrator_deleted_run AS d
        WHERE d.fetcher_id = q.fetcher_id AND d.run_started = q.fetcher_run_started)
    AND NOT EXISTS (
        SELECT 1 FROM queue AS newer
        WHERE newer.attr_path = $attr AND newer.fetcher_id = q.fetcher_id
            AND newer.fetcher_run_started > q.fetcher_run_started
            AND NOT EXISTS (
                SELECT 1 FROM orchestrator_deleted_run AS d
                WHERE d.fetcher_id = newer.fetcher_id AND d.run_started = newer.fetcher_run_started));
