//! Statements for each logical table.

use orchestrator_queue_store::migration::{BATCH_BYTES, BATCH_ROWS, Kind, Table};

/// First hand-out of an incarnation. Rows of `in_flight` with smaller numbers come from the log.
pub(super) const FIRST_HANDOUT: i64 = 1 << 32;

const FETCHERS: &str = include_str!("../sql/migration/fetchers.sql");

/// Returns the table that has a row for each row of a logical table.
pub(super) fn stored_in(table: Table) -> &'static str {
    match table {
        Table::Fetcher => "fetcher",
        Table::Run => "run",
        Table::Log => "log",
        Table::Handout => "in_flight",
        Table::Attempt => "attempt",
        Table::Failure => "failure",
        Table::Bump => "bump",
        Table::Offer => "offer",
        Table::Row => "listing",
    }
}

/// Returns the names that several fetchers with jobs have.
pub(super) fn ambiguous_fetchers() -> String {
    format!("SELECT name FROM {FETCHERS} GROUP BY name HAVING count(*) > 1 ORDER BY name")
}

/// Selects the rows behind a key, or from the start, in the order of keys.
pub(super) fn select(table: Table, is_behind: bool) -> String {
    let (columns, from) = match table {
        Table::Row => return select_rows(is_behind),
        Table::Fetcher => ("fetcher_id, name", format!("(SELECT * FROM {FETCHERS}) AS f")),
        Table::Run => (
            "fetcher_id, run_started, is_complete::integer::bigint, is_deleted::integer::bigint, added",
            format!("(SELECT * FROM run WHERE fetcher_id IN (SELECT fetcher_id FROM {FETCHERS})) AS r"),
        ),
        Table::Log => ("attr_path, started, finished, exit_code", "log".to_owned()),
        Table::Handout => (
            "handout_id, attr_path, fetcher_id, started, array_to_string(runs, ' '), had_log::integer::bigint, previous_started,
             previous_finished, previous_exit_code, delivered::bigint",
            format!("(SELECT * FROM in_flight WHERE handout_id >= {FIRST_HANDOUT}) AS i"),
        ),
        Table::Attempt => (
            "started, handout_id, attr_path, fetcher, connection, previous_started, previous_finished, previous_exit_code",
            "attempt".to_owned(),
        ),
        Table::Failure => (
            "number, attr_path, started, finished, exit_code",
            include_str!("../sql/migration/failures.sql").to_owned(),
        ),
        Table::Bump => ("number, attr_path, handout_id", "bump".to_owned()),
        Table::Offer => (
            "attr_path, fetcher_id, claim, state::bigint, exit_code, seconds, finished",
            "offer".to_owned(),
        ),
    };
    let keys = table.key().join(", ");
    let behind = behind(table, &keys, is_behind);
    format!("SELECT {columns} FROM {from}{behind} ORDER BY {keys} LIMIT {BATCH_ROWS}")
}

fn behind(table: Table, keys: &str, is_behind: bool) -> String {
    if !is_behind {
        return String::new();
    }
    let placeholders: Vec<String> = (1..=table.key().len()).map(|at| format!("${at}")).collect();
    format!(" WHERE ({keys}) > ({})", placeholders.join(", "))
}

/// Rows with their payloads, whose sizes end a batch.
fn select_rows(is_behind: bool) -> String {
    // As in the index `listing_of_run`.
    let keys = "(fetcher_id + 0), (run_started + 0), attr_path";
    let behind = behind(Table::Row, keys, is_behind);
    format!(
        include_str!("../sql/migration/rows.sql"),
        behind = behind,
        keys = keys,
        rows_max = BATCH_ROWS,
        bytes_max = BATCH_BYTES
    )
}

/// The parameters are the columns of the rows. New fetchers belong to `instance`.
pub(super) fn insert(table: Table, instance: &str) -> String {
    let columns: Vec<&str> = table.columns().iter().map(|(name, _)| *name).collect();
    let arrays: Vec<String> = table
        .columns()
        .iter()
        .enumerate()
        .map(|(at, (_, kind))| match kind {
            Kind::Integer => format!("${}::bigint[]", at + 1),
            Kind::Text => format!("${}::text[]", at + 1),
        })
        .collect();
    let (names, from) =
        (columns.join(", "), format!("unnest({}) AS t ({})", arrays.join(", "), columns.join(", ")));
    match table {
        Table::Fetcher => format!(
            "INSERT INTO fetcher (fetcher_id, name, instance) OVERRIDING SYSTEM VALUE SELECT fetcher_id, name, '{instance}' FROM {from}"
        ),
        Table::Run => format!(
            "INSERT INTO run ({names}) SELECT fetcher_id, run_started, is_complete <> 0, is_deleted <> 0, added FROM {from}"
        ),
        Table::Handout => {
            format!(include_str!("../sql/migration/insert_handouts.sql"), names = names, from = from)
        }
        Table::Bump => {
            format!("INSERT INTO bump ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM {from}")
        }
        Table::Offer => format!(
            "INSERT INTO offer ({names}) SELECT attr_path, fetcher_id, claim, state::smallint, exit_code, seconds, finished FROM {from}"
        ),
        Table::Row => format!(include_str!("../sql/migration/insert_rows.sql"), from = from),
        Table::Log | Table::Attempt | Table::Failure => {
            format!("INSERT INTO {} ({names}) SELECT {names} FROM {from}", stored_in(table))
        }
    }
}
