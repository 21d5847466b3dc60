-- First `?6` groups of the run `?2` of the fetcher `?1`, the class `?3` and `is_held` = `?4` that were started before `?5` or never, of paths
-- like `?8`. `?7` is the key of NULL. The primary key gives them in order.
SELECT started_key, jitter_key, attr_path FROM orchestrator_ready AS g
WHERE fetcher_id = ?1 AND run_started = ?2 AND class = ?3 AND is_held = ?4 AND (started_key < ?5 OR started_key = ?7)
    AND (?8 IS NULL OR path_matches(?8, attr_path))
    AND NOT EXISTS (SELECT 1 FROM orchestrator_deleted_run AS d
                    WHERE d.fetcher_id = g.fetcher_id AND d.run_started = g.run_started)
ORDER BY started_key, jitter_key, attr_path LIMIT ?6
