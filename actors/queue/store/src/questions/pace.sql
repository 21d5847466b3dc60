-- Number of the hand-outs from `$1` to `$2`, and the first of them: those with an attempt, and those that only the log knows. Scans the log.
SELECT count(*), min(started) FROM (
    SELECT started, attr_path FROM log WHERE started BETWEEN $1 AND $2
    UNION SELECT started, attr_path FROM attempt WHERE started BETWEEN $1 AND $2) AS h
