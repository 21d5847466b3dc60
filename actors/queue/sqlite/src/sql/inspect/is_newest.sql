-- Condition on a row `q` of `queue`: its run is not deleted, and no newer run of its fetcher lists the path.
NOT EXISTS (
    SELECT 1 FROM orchestrator_deleted_run AS d
    WHERE d.fetcher_id = q.fetcher_id AND d.run_started = q.fetcher_run_started)
AND NOT EXISTS (
    SELECT 1 FROM queue AS newer
    WHERE newer.attr_path = q.attr_path AND newer.fetcher_id = q.fetcher_id
        AND newer.fetcher_run_started > q.fetcher_run_started)
