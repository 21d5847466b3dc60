-- Common table expressions in front of questions of operators: the shape that `store/src/questions.rs` describes, and rows for the other questions.
-- SQLite puts each into the statement that uses it, so that its indexes are used. Blank lines stand between them.

attempt AS NOT MATERIALIZED (SELECT * FROM orchestrator_attempt)

failure AS NOT MATERIALIZED (SELECT * FROM orchestrator_failure)

holder AS NOT MATERIALIZED (SELECT NULL AS attr_path, NULL AS instance)

listed AS NOT MATERIALIZED (SELECT attr_path, fetcher_id, fetcher_run_started AS run_started, is_dequeued FROM queue)

-- Scans an index of the rows, and the groups.
runs AS NOT MATERIALIZED (
    SELECT r.fetcher_id, f.name AS fetcher, r.run_started, r.is_complete, d.run_started IS NOT NULL AS is_deleted, o.added,
        (SELECT count(*) FROM queue AS q
         WHERE q.fetcher_run_started = r.run_started AND q.fetcher_id = r.fetcher_id) AS jobs,
        iif(d.run_started IS NULL, (
            SELECT count(*) FROM orchestrator_ready AS g
            WHERE g.fetcher_id = r.fetcher_id AND g.run_started = r.run_started), 0) AS waiting
    FROM fetcher_runs AS r JOIN fetchers AS f ON f.fetcher_id = r.fetcher_id
        LEFT JOIN orchestrator_deleted_run AS d ON d.fetcher_id = r.fetcher_id AND d.run_started = r.run_started
        LEFT JOIN orchestrator_run AS o ON o.fetcher_id = r.fetcher_id AND o.run_started = r.run_started)

-- The first number needs no scan.
waiting AS NOT MATERIALIZED (
    SELECT (SELECT count(*) FROM orchestrator_ready) AS ready, (SELECT count(*) FROM orchestrator_ready WHERE is_held) AS held)

-- Rows whose runs are not deleted, and whose paths no newer run of the fetcher lists (CONTRACT QO01).
newest AS NOT MATERIALIZED (
    SELECT q.rowid AS id, q.* FROM queue AS q
    WHERE NOT EXISTS (
        SELECT 1 FROM orchestrator_deleted_run AS d
        WHERE d.fetcher_id = q.fetcher_id AND d.run_started = q.fetcher_run_started)
    AND NOT EXISTS (
        SELECT 1 FROM queue AS newer
        WHERE newer.attr_path = q.attr_path AND newer.fetcher_id = q.fetcher_id
            AND newer.fetcher_run_started > q.fetcher_run_started))

-- The order index gives them.
tried AS NOT MATERIALIZED (
    SELECT q.attr_path, q.fetcher_id, f.name AS fetcher, q.fetcher_run_started AS run_started, q.last_started AS started,
        r.added, q.order_jitter
    FROM newest AS q JOIN fetchers AS f ON f.fetcher_id = q.fetcher_id
        LEFT JOIN orchestrator_run AS r ON r.fetcher_id = q.fetcher_id AND r.run_started = q.fetcher_run_started)

-- Classes of the groups of each run. Takes a seek for each.
section AS (
    SELECT r.fetcher_id, r.run_started, (
        SELECT min(g.class) FROM orchestrator_ready AS g
        WHERE g.fetcher_id = r.fetcher_id AND g.run_started = r.run_started) AS class
    FROM orchestrator_run AS r
    UNION ALL
    SELECT s.fetcher_id, s.run_started, (
        SELECT min(g.class) FROM orchestrator_ready AS g
        WHERE g.fetcher_id = s.fetcher_id AND g.run_started = s.run_started AND g.class > s.class)
    FROM section AS s WHERE s.class IS NOT NULL)

-- Groups without a start have the smallest key. The primary keys give them in order, so that no more are read than are asked for.
untried AS NOT MATERIALIZED (
    SELECT g.attr_path, r.fetcher_id, f.name AS fetcher, r.run_started, r.added, g.class AS class_order, g.jitter_key AS order_jitter
    FROM orchestrator_run AS r CROSS JOIN fetchers AS f ON f.fetcher_id = r.fetcher_id
        CROSS JOIN orchestrator_ready AS g ON g.fetcher_id = r.fetcher_id AND g.run_started = r.run_started
            AND g.class IN (SELECT s.class FROM section AS s) AND g.is_held = 0 AND g.started_key = -9223372036854775807 - 1
    WHERE NOT EXISTS (
        SELECT 1 FROM orchestrator_deleted_run AS d
        WHERE d.fetcher_id = r.fetcher_id AND d.run_started = r.run_started))
