-- Newest `$3` attempts since `$1` that failed, or ended with the code `$2`, of paths like `$4`. The end of an attempt is in the log, or in the
-- attempt `next` that came after it. Scans the log and the attempts. Numbers of hand-outs grow only within an incarnation, their upper half.
SELECT e.attr_path, e.started, e.finished, e.exit_code,
    (SELECT a.fetcher FROM attempt AS a WHERE a.attr_path = e.attr_path AND a.started = e.started
         AND (a.handout_id < e.next OR a.handout_id >> 32 <> e.next >> 32)
     ORDER BY a.handout_id DESC LIMIT 1) AS fetcher,
    (SELECT a.connection FROM attempt AS a WHERE a.attr_path = e.attr_path AND a.started = e.started
         AND (a.handout_id < e.next OR a.handout_id >> 32 <> e.next >> 32)
     ORDER BY a.handout_id DESC LIMIT 1),
    CAST(NULL AS text)
FROM (
    SELECT attr_path, started, finished, exit_code, 9223372036854775807 AS next FROM log
    WHERE started >= $1 AND CASE WHEN CAST($2 AS bigint) IS NULL THEN exit_code <> 0 ELSE exit_code = $2 END
        AND path_matches($4, attr_path)
    UNION ALL
    SELECT attr_path, previous_started, previous_finished, previous_exit_code, handout_id FROM attempt
    WHERE previous_started >= $1
        AND CASE WHEN CAST($2 AS bigint) IS NULL THEN previous_exit_code <> 0 ELSE previous_exit_code = $2 END
        AND path_matches($4, attr_path)
    ORDER BY 2 DESC, 1 DESC, 5 DESC LIMIT $3) AS e
ORDER BY e.started DESC, e.attr_path DESC, e.next DESC
