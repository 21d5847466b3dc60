-- First `$1` jobs in flight of paths like `$2`, with the worker of the newest attempt. Scans the log; attempts and instances are found by path.
SELECT attr_path, started, CAST(NULL AS bigint), CAST(NULL AS bigint), fetcher, connection, instance
FROM (
    SELECT j.*, a.fetcher, a.connection, h.instance, row_number() OVER (PARTITION BY j.attr_path ORDER BY a.handout_id DESC) AS nth
    FROM (SELECT attr_path, started FROM log WHERE finished IS NULL AND path_matches($2, attr_path)
          ORDER BY started, attr_path LIMIT $1) AS j
        LEFT JOIN attempt AS a ON a.started = j.started AND a.attr_path = j.attr_path
        LEFT JOIN holder AS h ON h.attr_path = j.attr_path) AS j
WHERE nth = 1
ORDER BY started, attr_path
