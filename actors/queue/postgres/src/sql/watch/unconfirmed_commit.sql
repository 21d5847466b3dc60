-- The commit of the queue that waits longest for a synchronous standby, of those that wait for `$1` seconds.
--
-- Locks nothing.
SELECT a.pid, extract(epoch FROM clock_timestamp() - a.query_start)::float8 AS secs,
    current_setting('synchronous_standby_names') AS names,
    (SELECT string_agg(format('%s: %s, %s', r.application_name, coalesce(r.state, 'hidden state'), coalesce(r.sync_state, 'hidden')), '; ')
     FROM pg_stat_replication AS r) AS standbys
FROM pg_stat_activity AS a
WHERE {of_queue} AND a.wait_event = 'SyncRep' AND a.query_start < clock_timestamp() - make_interval(secs => $1)
ORDER BY a.query_start LIMIT 1
