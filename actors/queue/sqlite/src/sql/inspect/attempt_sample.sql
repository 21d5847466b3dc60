-- Ends since `?1` and in the last hour, since `?2`, of jobs that were handed out again: an attempt began after the end of the one before it. Reads
-- the attempts since `?1` by the primary key.
SELECT count(*) FILTER (WHERE previous_finished >= ?1 AND previous_exit_code = 0),
    count(*) FILTER (WHERE previous_finished >= ?1 AND previous_exit_code <> 0),
    count(*) FILTER (WHERE previous_finished >= ?2 AND previous_exit_code IS NOT NULL),
    min(started) FILTER (WHERE started >= ?2),
    count(*), min(started) FROM orchestrator_attempt WHERE started >= ?1
