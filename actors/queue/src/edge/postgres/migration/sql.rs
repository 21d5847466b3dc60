//! Statements for each logical table.

use crate::migration::{BATCH_BYTES, BATCH_ROWS, Kind, Table};

/// First hand-out of an incarnation. Rows of `in_flight` with smaller numbers come from the log.
pub(super) const FIRST_HANDOUT: i64 = 1 << 32;

/// Fetchers that a SQLite file can have: of several with one name, which belong to other subsystems, those
/// with jobs.
const FETCHERS: &str = "fetcher AS f WHERE NOT EXISTS (SELECT 1 FROM fetcher AS o WHERE o.name = f.name AND o.fetcher_id <> f.fetcher_id)
     OR EXISTS (SELECT 1 FROM listing AS l WHERE l.fetcher_id + 0 = f.fetcher_id)
     OR EXISTS (SELECT 1 FROM offer AS o WHERE o.fetcher_id = f.fetcher_id)
     OR EXISTS (SELECT 1 FROM in_flight AS i WHERE i.fetcher_id = f.fetcher_id)";

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
            "(SELECT number, attr_path, started, finished, exit_code FROM failure WHERE number IS NOT NULL
              UNION ALL
              SELECT s.last_value + row_number() OVER (ORDER BY f.entered), f.attr_path, f.started, f.finished, f.exit_code
              FROM failure AS f, failure_number AS s WHERE f.number IS NULL) AS f"
                .to_owned(),
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
    let places: Vec<String> = (1..=table.key().len()).map(|at| format!("${at}")).collect();
    format!(" WHERE ({keys}) > ({})", places.join(", "))
}

/// Rows with their payloads, whose sizes end a batch.
fn select_rows(is_behind: bool) -> String {
    // As in the index `listing_of_run`.
    let keys = "(fetcher_id + 0), (run_started + 0), attr_path";
    let behind = behind(Table::Row, keys, is_behind);
    format!(
        "SELECT fetcher_id, run_started, attr_path, payload, order_jitter::bigint, is_dequeued::integer::bigint
         FROM (
             SELECT l.*, p.payload, sum(octet_length(p.payload)) OVER (ORDER BY l.fetcher_id, l.run_started, l.attr_path)
                 - octet_length(p.payload) AS before
             FROM (SELECT * FROM listing{behind} ORDER BY {keys} LIMIT {BATCH_ROWS}) AS l
                 JOIN run AS r USING (fetcher_id, run_started)
                 JOIN payload AS p USING (payload_id)
         ) AS b
         WHERE before < {BATCH_BYTES} ORDER BY fetcher_id, run_started, attr_path"
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
        Table::Handout => format!(
            "INSERT INTO in_flight ({names}, class, is_held)
             SELECT handout_id, attr_path, fetcher_id, started, string_to_array(runs, ' ')::bigint[], had_log <> 0, previous_started,
                 previous_finished, previous_exit_code, delivered::smallint, 0, delivered >= 0
             FROM {from}"
        ),
        Table::Bump => {
            format!("INSERT INTO bump ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM {from}")
        }
        Table::Offer => format!(
            "INSERT INTO offer ({names}) SELECT attr_path, fetcher_id, claim, state::smallint, exit_code, seconds, finished FROM {from}"
        ),
        Table::Row => format!(
            "WITH new AS MATERIALIZED (
                 SELECT t.*, nextval(pg_get_serial_sequence('payload', 'payload_id')) AS payload_id FROM {from}
             ), stored AS (
                 INSERT INTO payload (payload_id, payload) SELECT payload_id, payload FROM new
             )
             INSERT INTO listing (attr_path, fetcher_id, run_started, payload_id, order_jitter, is_dequeued)
             SELECT attr_path, fetcher_id, run_started, payload_id, order_jitter::integer, is_dequeued <> 0 FROM new"
        ),
        Table::Log | Table::Attempt | Table::Failure => {
            format!("INSERT INTO {} ({names}) SELECT {names} FROM {from}", stored_in(table))
        }
    }
}
