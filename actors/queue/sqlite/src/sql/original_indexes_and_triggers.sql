-- Indexes and triggers of the original's tables, except the order index, which differs between versions.

CREATE INDEX IF NOT EXISTS fetcher_run_started_index ON fetcher_runs (run_started, fetcher_id);
CREATE INDEX IF NOT EXISTS queue_attr_path_index ON queue (attr_path);
CREATE TRIGGER IF NOT EXISTS fetcher_runs_delete AFTER DELETE ON fetcher_runs
WHEN NOT EXISTS (SELECT 1 FROM fetcher_runs WHERE fetcher_id = OLD.fetcher_id)
BEGIN
    DELETE FROM fetchers WHERE fetcher_id = OLD.fetcher_id;
END;
CREATE TRIGGER IF NOT EXISTS queue_insert_started AFTER INSERT ON queue
WHEN EXISTS (SELECT 1 FROM log WHERE attr_path = NEW.attr_path)
BEGIN
    UPDATE queue SET last_started = (SELECT started FROM log WHERE attr_path = NEW.attr_path) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER IF NOT EXISTS log_insert_started AFTER INSERT ON log
BEGIN
    UPDATE queue SET last_started = NEW.started WHERE attr_path = NEW.attr_path;
END;
CREATE TRIGGER IF NOT EXISTS log_update_started AFTER UPDATE OF started ON log
BEGIN
    UPDATE queue SET last_started = NEW.started WHERE attr_path = NEW.attr_path;
END;
