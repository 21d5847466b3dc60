-- Groups of paths that wait, read from the rows that list them.
--
-- Locks nothing. Fast for a few paths: the primary key of `listing` gives the rows of each path, and both functions become part of the
-- statement that calls them.

-- Class of limits of a job. Functions in SQL are those that the planner puts into the statement that calls them: it plans others at each
-- call.
CREATE OR REPLACE FUNCTION class_of(path text, fetcher_name text) RETURNS TABLE (class smallint) LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT class FROM limit_rule
         WHERE (attr_like IS NULL OR path LIKE attr_like) AND (fetcher_like IS NULL OR fetcher_name LIKE fetcher_like)
         ORDER BY class LIMIT 1),
        0::smallint)
$$;

-- Groups of these paths that wait: the newest row of each fetcher, if it was not handed out (CONTRACT QO01, QO02).
CREATE OR REPLACE FUNCTION ready_groups(paths text[])
RETURNS TABLE (attr_path text, class smallint, order_jitter integer, fetcher_id bigint, run_started bigint, payload_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT n.attr_path, c.class, n.order_jitter, n.fetcher_id, n.run_started, n.payload_id
    FROM (
        SELECT DISTINCT ON (l.attr_path, l.fetcher_id) l.*, f.name
        FROM listing AS l
            JOIN run AS r ON r.fetcher_id = l.fetcher_id AND r.run_started = l.run_started
            JOIN fetcher AS f ON f.fetcher_id = l.fetcher_id
        WHERE l.attr_path = ANY (paths) AND NOT r.is_deleted
        ORDER BY l.attr_path, l.fetcher_id, l.run_started DESC
    ) AS n, LATERAL class_of(n.attr_path, n.name) AS c
    WHERE NOT n.is_dequeued
$$;
