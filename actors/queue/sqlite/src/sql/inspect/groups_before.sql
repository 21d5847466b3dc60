-- Number of the groups of the run `?2` of the fetcher `?1`, the class `?3` and `is_held` = `?4` before the key (`?7`, `?8`, `?9`, `?10`), of
-- those started before `?5` or never. `?6` is the key of NULL. Reads a range of the primary key.
SELECT count(*) FROM orchestrator_ready
WHERE fetcher_id = ?1 AND run_started = ?2 AND class = ?3 AND is_held = ?4 AND (started_key < ?5 OR started_key = ?6)
    AND started_key <= ?7
    AND (started_key, jitter_key, attr_path, fetcher_id) < (?7, ?8, ?9, ?10)
