-- Newest `?3` attempts since `?1` that failed, or ended with the code `?2`, of paths like `?4`. Scans the log and the attempts.
WITH ended AS MATERIALIZED (
    SELECT attr_path, started, finished, exit_code, 9223372036854775807 AS next FROM log
    WHERE started >= ?1 AND iif(?2 IS NULL, exit_code <> 0, exit_code = ?2)
        AND orchestrator_matches(?4, attr_path)
    UNION ALL
    SELECT attr_path, previous_started, previous_finished, previous_exit_code, handout_id
    FROM orchestrator_attempt
    WHERE previous_started >= ?1
        AND iif(?2 IS NULL, previous_exit_code <> 0, previous_exit_code = ?2)
        AND orchestrator_matches(?4, attr_path)
    ORDER BY 2 DESC, 1 DESC, 5 DESC LIMIT ?3)
SELECT e.attr_path, e.started, e.finished, e.exit_code, a.fetcher, a.connection, max(a.handout_id)
FROM ended AS e LEFT JOIN orchestrator_attempt AS a
    ON a.started = e.started AND a.attr_path = e.attr_path AND a.handout_id < e.next
GROUP BY e.attr_path, e.next ORDER BY e.started DESC, e.attr_path DESC, e.next DESC
