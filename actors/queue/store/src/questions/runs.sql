-- Runs with the numbers of their rows, and of those that wait.
SELECT fetcher, run_started, is_complete, is_deleted, jobs, waiting FROM runs ORDER BY fetcher_id, run_started
