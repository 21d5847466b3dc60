-- Gets or releases the shared advisory lock of sessions whose workers have asked a short time ago, and tells whether another session has it.
--
-- Waits for nobody.
WITH name AS (SELECT workers_lock() AS name), holder AS MATERIALIZED (
    SELECT l.pid FROM pg_locks AS l, name
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
        AND (l.classid::bigint << 32) | l.objid::bigint = name.name
), own AS (SELECT EXISTS (SELECT 1 FROM holder WHERE pid = pg_backend_pid()) AS is_held)
SELECT EXISTS (SELECT 1 FROM holder WHERE pid <> pg_backend_pid()), CASE
    WHEN $1 AND NOT own.is_held THEN pg_try_advisory_lock_shared(name.name)
    WHEN NOT $1 AND own.is_held THEN pg_advisory_unlock_shared(name.name) END
FROM name, own
