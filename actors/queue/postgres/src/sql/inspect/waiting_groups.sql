-- Groups of the path `$2` that wait, and their positions in the order without the groups of other paths. `$1` is the earliest start of a job
-- whose hold is not over.
--
-- Locks nothing. Rows of the path and of bumped paths are found by path. All rows of a path have the same jitter.
WITH {open_slots}, {bumped}, mine AS MATERIALIZED (
    SELECT g.*, p.slots, coalesce(log.started, {never}) AS started_key, EXISTS (
        SELECT 1 FROM in_flight AS h WHERE h.attr_path = g.attr_path AND h.is_held AND h.started >= $1) AS is_held
    FROM ready_groups(ARRAY[$2]) AS g JOIN open_slots AS p USING (class) LEFT JOIN log ON log.attr_path = g.attr_path)
SELECT f.name, m.run_started, left(p.payload, {payload_chars}), m.slots = 0, m.is_held, m.started_key, m.order_jitter,
    (SELECT b.bump_order FROM bumped AS b WHERE b.attr_path = m.attr_path AND b.fetcher_id = m.fetcher_id),
    (SELECT count(*) FROM mine AS o WHERE o.fetcher_id < m.fetcher_id AND o.slots > 0)
        + (SELECT count(*) FROM bumped AS b LEFT JOIN log ON log.attr_path = b.attr_path
           WHERE (coalesce(log.started, {never}), b.order_jitter, b.attr_path, b.fetcher_id)
               > (m.started_key, m.order_jitter, m.attr_path, m.fetcher_id))
FROM mine AS m JOIN fetcher AS f USING (fetcher_id) JOIN payload AS p USING (payload_id)
ORDER BY m.fetcher_id
