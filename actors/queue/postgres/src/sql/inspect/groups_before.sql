-- Number of the groups of other paths before the path `$4`, last started at `$2` with the jitter `$3`, in the order without bumps. `$1` is the
-- earliest start of a job whose hold is not over.
--
-- Locks nothing. Reads all rows; computes classes only while a limit is reached.
{newest}, {open_slots}
SELECT count(*)
FROM newest AS g JOIN fetcher AS f USING (fetcher_id) LEFT JOIN log ON log.attr_path = g.attr_path
WHERE NOT g.is_dequeued AND (coalesce(log.started, {never}), g.order_jitter, g.attr_path) < ($2, $3, $4)
    AND NOT EXISTS (SELECT 1 FROM in_flight AS h WHERE h.attr_path = g.attr_path AND h.is_held AND h.started >= $1)
    AND (NOT EXISTS (SELECT 1 FROM open_slots WHERE slots = 0)
         OR {class} <> ALL (ARRAY(SELECT p.class FROM open_slots AS p WHERE p.slots = 0)))
