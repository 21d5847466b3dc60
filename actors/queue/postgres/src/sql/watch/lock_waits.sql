-- The session that another one of the queue waits for longest, of those that wait for `$1` seconds; or the session `$2`, as long as it has a lock
-- on the table `$3`.
--
-- Locks nothing. A wait for a row waits for a transaction; the lock of the row names the table.
WITH waits AS (
    SELECT b.pid AS holder, coalesce(l.relation, (
        SELECT r.relation FROM pg_locks AS r WHERE r.pid = a.pid AND r.locktype = 'tuple' LIMIT 1)) AS relation,
        l.locktype, coalesce(l.waitstart, a.query_start) AS since
    FROM pg_stat_activity AS a JOIN pg_locks AS l ON l.pid = a.pid AND NOT l.granted
        CROSS JOIN LATERAL unnest(pg_blocking_pids(a.pid)) AS b (pid)
    WHERE {of_queue}
), held AS (
    SELECT w.*, 0 AS rank FROM waits AS w WHERE w.since < clock_timestamp() - make_interval(secs => $1)
    UNION ALL
    SELECT l.pid, l.relation, l.locktype, NULL, 1 FROM pg_locks AS l
    WHERE l.pid = $2::integer AND l.relation = $3::oid AND l.granted
)
SELECT h.holder, h.relation, coalesce(h.relation::regclass::text, h.locktype) AS name,
    extract(epoch FROM clock_timestamp() - h.since)::float8 AS secs, {session_columns}
FROM held AS h LEFT JOIN pg_stat_activity AS a ON a.pid = h.holder
-- A holder that waits itself is no cause.
ORDER BY h.rank, coalesce(a.wait_event_type = 'Lock', false), h.since LIMIT 1
