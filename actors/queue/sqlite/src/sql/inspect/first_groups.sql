-- First `?5` groups of the run `?2` of the fetcher `?1` and the column `held` = `?3` that were started before `?4` or never, of paths like `?7`.
-- `?6` is the key of NULL. The primary key gives them in order.
SELECT started_key, jitter_key, attr_path FROM orchestrator_group AS g
WHERE fetcher_id = ?1 AND run_started = ?2 AND held = ?3 AND (started_key < ?4 OR started_key = ?6)
    AND orchestrator_matches(?7, attr_path)
    AND NOT EXISTS (SELECT 1 FROM orchestrator_deleted_run AS d
                    WHERE d.fetcher_id = g.fetcher_id AND d.run_started = g.run_started)
ORDER BY started_key, jitter_key, attr_path LIMIT ?5
