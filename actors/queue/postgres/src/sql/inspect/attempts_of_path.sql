-- Newest `$2` attempts of the path `$1`, from its log row along the log rows that each attempt replaced, until their texts exceed `bytes_max`. An
-- attempt that is not kept has no row; the next one is then the latest before it, whose end is lost.
--
-- Locks nothing. The index `attempt_path` gives each attempt from the one after it.
SELECT * FROM (
    SELECT w.*, sum(octet_length($1) + coalesce(octet_length(fetcher), 0)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ROWS UNBOUNDED PRECEDING) AS n
    FROM (
        WITH RECURSIVE walk AS (
            SELECT 0::bigint AS n, NULL::bigint AS started, NULL::bigint AS finished, NULL::bigint AS exit_code,
                NULL AS fetcher, NULL AS connection, log.started AS next_started, log.finished AS next_finished,
                log.exit_code AS next_exit_code, ARRAY[]::bigint[] AS seen
            FROM log WHERE log.attr_path = $1
            UNION ALL
            SELECT w.n + 1, w.next_started, w.next_finished, w.next_exit_code,
                CASE WHEN a.started = w.next_started THEN a.fetcher END,
                CASE WHEN a.started = w.next_started THEN a.connection END,
                CASE WHEN a.started = w.next_started THEN a.previous_started ELSE a.started END,
                CASE WHEN a.started = w.next_started THEN a.previous_finished END,
                CASE WHEN a.started = w.next_started THEN a.previous_exit_code END,
                CASE WHEN a.started = w.next_started THEN w.seen || a.handout_id ELSE w.seen END
            FROM walk AS w LEFT JOIN LATERAL (
                SELECT * FROM attempt AS a
                WHERE a.attr_path = $1 AND a.started <= w.next_started AND a.handout_id <> ALL (w.seen)
                ORDER BY a.started DESC, a.handout_id DESC LIMIT 1) AS a ON true
            WHERE w.next_started IS NOT NULL AND w.n < $2)
        SELECT $1, started, finished, exit_code, fetcher, connection FROM walk WHERE n > 0 ORDER BY n
    ) AS w
) AS w
WHERE bytes <= {bytes_max} OR n = 1
