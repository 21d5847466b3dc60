-- Ends since `$1` and in the last hour, since `$2`, of jobs that were handed out again: an attempt began after the end of the one before it. Reads
-- the attempts since `$1`, which each store finds by their times.
SELECT count(*) FILTER (WHERE previous_finished >= $1 AND previous_exit_code = 0),
    count(*) FILTER (WHERE previous_finished >= $1 AND previous_exit_code <> 0),
    count(*) FILTER (WHERE previous_finished >= $2 AND previous_exit_code IS NOT NULL),
    min(started) FILTER (WHERE started >= $2),
    count(*), min(started), EXISTS (SELECT 1 FROM attempt WHERE started < $1) FROM attempt WHERE started >= $1
