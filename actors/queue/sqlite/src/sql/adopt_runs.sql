-- Records the runs that another program added, with the current time, and forgets those that it removed.
INSERT INTO orchestrator_run (fetcher_id, run_started, added)
    SELECT fetcher_id, run_started, unixepoch() FROM fetcher_runs WHERE true ON CONFLICT DO NOTHING;
DELETE FROM orchestrator_run
    WHERE (fetcher_id, run_started) NOT IN (SELECT fetcher_id, run_started FROM fetcher_runs);
