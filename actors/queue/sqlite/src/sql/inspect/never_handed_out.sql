-- First `?4` groups of the run `?2` of the fetcher `?1` and the class `?5` that are not held and were never handed out: `?3` is the key of NULL. The
-- primary key gives them in order.
SELECT g.attr_path, f.name, g.run_started, NULL, r.added
FROM orchestrator_ready AS g JOIN fetchers AS f USING (fetcher_id)
    JOIN orchestrator_run AS r ON r.fetcher_id = g.fetcher_id AND r.run_started = g.run_started
WHERE g.fetcher_id = ?1 AND g.run_started = ?2 AND g.class = ?5 AND g.is_held = 0 AND g.started_key = ?3
ORDER BY g.jitter_key, g.attr_path LIMIT ?4
