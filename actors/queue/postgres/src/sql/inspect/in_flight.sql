-- First `$1` jobs in flight of paths like `$2`.
--
-- Locks nothing. Scans the log; attempts and instances are found by path.
SELECT l.attr_path, l.started, NULL::bigint, NULL::bigint, a.fetcher, a.connection, i.instance
FROM (SELECT attr_path, started FROM log WHERE finished IS NULL AND ($2::text IS NULL OR attr_path LIKE $2)
      ORDER BY started, attr_path LIMIT $1) AS l
    LEFT JOIN LATERAL (
        SELECT a.fetcher, a.connection FROM attempt AS a WHERE a.attr_path = l.attr_path AND a.started = l.started
        ORDER BY a.handout_id DESC LIMIT 1) AS a ON true
    LEFT JOIN in_flight AS f ON f.attr_path = l.attr_path
    LEFT JOIN incarnation AS i ON i.incarnation = f.handout_id >> 32
ORDER BY l.started, l.attr_path
