-- Removes the group of the row OLD from the position of its old key, which is the primary key.
DELETE FROM orchestrator_ready
WHERE fetcher_id = OLD.fetcher_id AND run_started = OLD.fetcher_run_started AND class IN ($class_values)
    AND is_held IN (0, 1) AND started_key = ifnull(OLD.last_started, $min) AND jitter_key = ifnull(OLD.order_jitter, $min)
    AND attr_path = OLD.attr_path;
