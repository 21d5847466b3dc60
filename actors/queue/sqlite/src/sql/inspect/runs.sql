-- Runs with the numbers of their rows, and of those that wait. Scans indexes of all rows and of the groups.
SELECT f.name, r.run_started, r.is_complete, d.run_started IS NOT NULL,
    (SELECT count(*) FROM queue AS q
     WHERE q.fetcher_run_started = r.run_started AND q.fetcher_id = r.fetcher_id),
    iif(d.run_started IS NULL,
        (SELECT count(*) FROM orchestrator_ready AS g
         WHERE g.fetcher_id = r.fetcher_id AND g.run_started = r.run_started), 0)
FROM fetcher_runs AS r JOIN fetchers AS f USING (fetcher_id)
    LEFT JOIN orchestrator_deleted_run AS d USING (fetcher_id, run_started)
ORDER BY f.fetcher_id, r.run_started
