-- First `$1` jobs in flight of paths like `$2`, with the worker of the newest attempt. Scans the log; attempts and instances are found by path.
SELECT j.attr_path, j.started, CAST(NULL AS bigint), CAST(NULL AS bigint),
    (SELECT a.fetcher FROM attempt AS a WHERE a.attr_path = j.attr_path AND a.started = j.started
     ORDER BY a.handout_id DESC LIMIT 1) AS fetcher,
    (SELECT a.connection FROM attempt AS a WHERE a.attr_path = j.attr_path AND a.started = j.started
     ORDER BY a.handout_id DESC LIMIT 1),
    (SELECT h.instance FROM holder AS h WHERE h.attr_path = j.attr_path)
FROM (SELECT attr_path, started FROM log WHERE finished IS NULL AND path_matches($2, attr_path)
      ORDER BY started, attr_path LIMIT $1) AS j
ORDER BY j.started, j.attr_path
