-- Common table expression `open_slots`: the number of jobs of each class that may be handed out. Jobs whose holds are over do not count
-- (CONTRACT QO02). `$1` is the earliest start of a job whose hold is not over.
--
-- Locks nothing. Reads the rows of `in_flight` that are held, and is computed once for a question.
open_slots AS MATERIALIZED (
    SELECT 0::smallint AS class, 9223372036854775807 AS slots
    UNION ALL
    SELECT l.class, greatest(l.in_flight - coalesce(held.jobs, 0), 0)
    FROM limit_rule AS l LEFT JOIN (
        SELECT h.class, count(*) AS jobs FROM in_flight AS h WHERE h.is_held AND h.started >= $1 GROUP BY h.class
    ) AS held USING (class))
