-- Time at which the oldest run was added that has groups. Each run is looked up once by the primary key.
SELECT min(r.added) FROM orchestrator_run AS r
WHERE EXISTS (SELECT 1 FROM orchestrator_ready AS g
              WHERE g.fetcher_id = r.fetcher_id AND g.run_started = r.run_started)
    AND NOT EXISTS (SELECT 1 FROM orchestrator_deleted_run AS d
                    WHERE d.fetcher_id = r.fetcher_id AND d.run_started = r.run_started)
