-- First `$1` sessions, prepared transactions and replication slots because of which vacuum cannot remove rows.
--
-- Locks nothing. A transaction with a number matters in each database, since snapshots of all begin with it. The age of a slot is not known.
SELECT * FROM (
    SELECT 'session' AS kind, a.pid::text AS name, coalesce(a.backend_xid, a.backend_xmin)::text AS oldest,
        greatest(age(a.backend_xid), age(a.backend_xmin)) AS transactions,
        extract(epoch FROM clock_timestamp() - a.state_change)::float8 AS held, {session_columns}
    FROM pg_stat_activity AS a
    WHERE (a.backend_xid IS NOT NULL
            OR a.backend_xmin IS NOT NULL AND (a.datname IS NULL OR a.datname = current_database()))
        AND NOT coalesce({of_queue}, false)
        AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)
    UNION ALL
    SELECT 'prepared', p.gid, p.transaction::text, age(p.transaction),
        extract(epoch FROM clock_timestamp() - p.prepared)::float8, 0, NULL, p.owner::text, NULL, NULL, NULL
    FROM pg_prepared_xacts AS p
    UNION ALL
    SELECT 'slot', s.slot_name::text, s.xmin::text, age(s.xmin), 0, 0, NULL, NULL,
        CASE WHEN s.active THEN 'active' ELSE 'inactive' END, NULL, NULL
    FROM pg_replication_slots AS s WHERE s.xmin IS NOT NULL
) AS h ORDER BY transactions DESC LIMIT $1
