-- Ends since `$1` and in the last hour, since `$2`, of jobs that were not handed out again. Scans the log.
SELECT count(*) FILTER (WHERE finished >= $1 AND exit_code = 0),
    count(*) FILTER (WHERE finished >= $1 AND exit_code <> 0),
    count(*) FILTER (WHERE finished >= $2 AND exit_code IS NOT NULL),
    min(started) FILTER (WHERE started >= $2),
    count(*) FILTER (WHERE finished IS NULL),
    max(finished) FILTER (WHERE exit_code IS NOT NULL) FROM log
