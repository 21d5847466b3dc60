-- Common table expressions in front of questions of operators: the shape that `store/src/questions.rs` describes, and rows for the other questions.
-- The tables `attempt`, `failure` and `log` have it as they are. No views of the server: they would be in the way of changes of the tables.
-- Blank lines stand between them.
--
-- Locks nothing. The planner puts each into the statement that uses it.

holder AS NOT MATERIALIZED (
    SELECT f.attr_path, i.instance FROM in_flight AS f JOIN incarnation AS i ON i.incarnation = f.handout_id >> 32)

listed AS NOT MATERIALIZED (SELECT attr_path, fetcher_id, run_started, is_dequeued FROM listing)

-- Newest rows of each fetcher that list a path, with the times at which their runs were added (CONTRACT QO01). For questions about all rows:
-- `ready_groups` is faster for a few paths.
newest AS NOT MATERIALIZED (
    SELECT l.*, r.added FROM listing AS l JOIN run AS r USING (fetcher_id, run_started)
    WHERE NOT r.is_deleted AND NOT EXISTS (
        SELECT 1 FROM listing AS newer JOIN run AS of USING (fetcher_id, run_started)
        WHERE newer.attr_path = l.attr_path AND newer.fetcher_id = l.fetcher_id AND newer.run_started > l.run_started
            AND NOT of.is_deleted))

-- Reads all rows.
runs AS NOT MATERIALIZED (
    SELECT r.fetcher_id, f.name AS fetcher, r.run_started, r.is_complete, r.is_deleted, r.added,
        coalesce(l.rows, 0) AS jobs, coalesce(w.rows, 0) AS waiting
    FROM run AS r JOIN fetcher AS f USING (fetcher_id)
        LEFT JOIN (SELECT fetcher_id, run_started, count(*) AS rows FROM listing GROUP BY 1, 2) AS l
            USING (fetcher_id, run_started)
        LEFT JOIN (SELECT fetcher_id, run_started, count(*) AS rows FROM newest WHERE NOT is_dequeued GROUP BY 1, 2) AS w
            USING (fetcher_id, run_started))

waiting AS NOT MATERIALIZED (
    SELECT count(*) AS ready, count(log.attr_path) AS held
    FROM newest AS g LEFT JOIN log ON log.attr_path = g.attr_path AND log.finished IS NULL
    WHERE NOT g.is_dequeued)

tried AS NOT MATERIALIZED (
    SELECT g.attr_path, g.fetcher_id, f.name AS fetcher, g.run_started, log.started, g.added, g.order_jitter
    FROM log JOIN newest AS g USING (attr_path) JOIN fetcher AS f USING (fetcher_id))

untried AS NOT MATERIALIZED (
    SELECT g.attr_path, g.fetcher_id, f.name AS fetcher, g.run_started, g.added, {class} AS class_order, g.order_jitter
    FROM newest AS g JOIN fetcher AS f USING (fetcher_id)
    WHERE NOT g.is_dequeued AND NOT EXISTS (SELECT 1 FROM log WHERE log.attr_path = g.attr_path))
