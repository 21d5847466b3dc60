-- Runs with the numbers of their rows, and of those that wait.
--
-- Locks nothing. Reads all rows.
SELECT f.name, r.run_started, r.is_complete, r.is_deleted, coalesce(l.rows, 0), coalesce(w.rows, 0)
FROM run AS r JOIN fetcher AS f USING (fetcher_id)
    LEFT JOIN (SELECT fetcher_id, run_started, count(*) AS rows FROM listing GROUP BY 1, 2) AS l
        USING (fetcher_id, run_started)
    LEFT JOIN (SELECT fetcher_id, run_started, count(*) AS rows FROM {newest} AS g WHERE NOT is_dequeued GROUP BY 1, 2) AS w
        USING (fetcher_id, run_started)
ORDER BY r.fetcher_id, r.run_started
