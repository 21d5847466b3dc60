//! Statements for each logical table.

use orchestrator_queue_store::migration::Table;

/// Numbers of runs, the newest first.
const RUNS: &str = "(SELECT ifnull(group_concat(value, ' '), '') FROM (
    SELECT value FROM json_each('[' || replace(h.runs, ' ', ',') || ']') ORDER BY value DESC))";

/// Returns the table that has a row for each row of a logical table.
pub(super) fn stored_in(table: Table) -> &'static str {
    match table {
        Table::Fetcher => "fetchers",
        Table::Run => "fetcher_runs",
        Table::Log => "log",
        Table::Handout => "orchestrator_handout",
        Table::Attempt => "orchestrator_attempt",
        Table::Failure => "orchestrator_failure",
        Table::Bump => "orchestrator_bump",
        Table::Offer => "orchestrator_offer",
        Table::Row => "queue",
    }
}

/// Rows in the order of keys.
pub(super) fn select(table: Table) -> String {
    let (columns, from, keys) = match table {
        Table::Fetcher => ("fetcher_id, name".to_owned(), "fetchers", "fetcher_id"),
        Table::Run => (
            "r.fetcher_id, r.run_started, r.is_complete <> 0, EXISTS (
                 SELECT 1 FROM orchestrator_deleted_run AS d
                 WHERE d.fetcher_id = r.fetcher_id AND d.run_started = r.run_started), o.added"
                .to_owned(),
            "fetcher_runs AS r LEFT JOIN orchestrator_run AS o USING (fetcher_id, run_started)",
            "r.fetcher_id, r.run_started",
        ),
        Table::Log => ("attr_path, started, finished, exit_code".to_owned(), "log", "attr_path"),
        // Other records are void: another program has ended the job or handed out the path.
        Table::Handout => (
            format!(
                "h.handout_id, h.attr_path, h.fetcher_id, h.started, {RUNS}, h.had_log, h.previous_started,
                 h.previous_finished, h.previous_exit_code, h.delivered"
            ),
            "(SELECT * FROM orchestrator_handout AS r WHERE r.delivered = -1 OR EXISTS (
                 SELECT 1 FROM log WHERE log.attr_path = r.attr_path AND log.started = r.started AND log.finished IS NULL)) AS h",
            "h.handout_id",
        ),
        Table::Attempt => (
            "started, handout_id, attr_path, fetcher, connection, previous_started, previous_finished, previous_exit_code"
                .to_owned(),
            "orchestrator_attempt",
            "started, handout_id",
        ),
        Table::Failure => (
            "number, attr_path, started, finished, exit_code".to_owned(),
            "orchestrator_failure",
            "number",
        ),
        Table::Bump => ("number, attr_path, handout_id".to_owned(), "orchestrator_bump", "number"),
        Table::Offer => (
            "attr_path, fetcher_id, claim, state, exit_code, seconds, finished".to_owned(),
            "orchestrator_offer",
            "attr_path, fetcher_id",
        ),
        Table::Row => (
            "r.fetcher_id, r.run_started, q.attr_path, q.payload, q.order_jitter, q.is_dequeued <> 0".to_owned(),
            "fetcher_runs AS r CROSS JOIN queue AS q
                 ON q.fetcher_run_started = r.run_started AND q.fetcher_id = r.fetcher_id",
            "r.fetcher_id, r.run_started, q.attr_path",
        ),
    };
    format!("SELECT {columns} FROM {from} ORDER BY {keys}")
}

/// A parameter has the number of its column, from 1.
pub(super) fn inserts(table: Table) -> &'static [&'static str] {
    match table {
        Table::Fetcher => &["INSERT INTO fetchers (fetcher_id, name) VALUES (?1, ?2)"],
        Table::Run => &[
            "INSERT INTO fetcher_runs (fetcher_id, run_started, is_complete) VALUES (?1, ?2, ?3)",
            "INSERT INTO orchestrator_deleted_run (fetcher_id, run_started) SELECT ?1, ?2 WHERE ?4",
            "INSERT INTO orchestrator_run (fetcher_id, run_started, added) VALUES (?1, ?2, ?5)",
        ],
        Table::Log => &["INSERT INTO log (attr_path, started, finished, exit_code) VALUES (?1, ?2, ?3, ?4)"],
        Table::Handout => &[
            "INSERT INTO orchestrator_handout (handout_id, attr_path, fetcher_id, started, runs, had_log, previous_started,
                 previous_finished, previous_exit_code, delivered) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        ],
        Table::Attempt => &[
            "INSERT INTO orchestrator_attempt (started, handout_id, attr_path, fetcher, connection, previous_started,
                 previous_finished, previous_exit_code) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        ],
        Table::Failure => &[
            "INSERT INTO orchestrator_failure (number, attr_path, started, finished, exit_code) VALUES (?1, ?2, ?3, ?4, ?5)",
        ],
        Table::Bump => {
            &["INSERT INTO orchestrator_bump (number, attr_path, handout_id) VALUES (?1, ?2, ?3)"]
        }
        Table::Offer => &[
            "INSERT INTO orchestrator_offer (attr_path, fetcher_id, claim, state, exit_code, seconds, finished)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        ],
        Table::Row => &[
            "INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, order_jitter, is_dequeued, last_started)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, (SELECT started FROM log WHERE attr_path = ?3))",
        ],
    }
}
