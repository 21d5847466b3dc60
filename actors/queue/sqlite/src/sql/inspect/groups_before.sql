-- Number of the groups of the run `?2` of the fetcher `?1` and the column `held` = `?3` before the key (`?6`, `?7`, `?8`, `?9`), of those
-- started before `?4` or never. `?5` is the key of NULL. Reads a range of the primary key.
SELECT count(*) FROM orchestrator_group
WHERE fetcher_id = ?1 AND run_started = ?2 AND held = ?3 AND (started_key < ?4 OR started_key = ?5)
    AND started_key <= ?6
    AND (started_key, jitter_key, attr_path, fetcher_id) < (?6, ?7, ?8, ?9)
