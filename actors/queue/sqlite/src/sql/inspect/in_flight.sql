-- First `?1` jobs in flight of paths like `?2`. Scans the log.
SELECT l.attr_path, l.started, NULL, NULL, a.fetcher, a.connection, max(a.handout_id)
FROM (SELECT attr_path, started FROM log WHERE finished IS NULL AND orchestrator_matches(?2, attr_path)
      ORDER BY started, attr_path LIMIT ?1) AS l
    LEFT JOIN orchestrator_attempt AS a ON a.started = l.started AND a.attr_path = l.attr_path
GROUP BY l.attr_path ORDER BY l.started, l.attr_path
