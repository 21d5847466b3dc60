//! Tables of our own, and the triggers that update the table of groups when other programs write.
//!
//! Our connection runs with triggers off and updates that table itself. In other connections the
//! order of triggers is undefined, so each trigger recomputes the group from the current rows. No
//! statement has a conflict clause, because the clause of the outer statement would replace it.

use super::schema::has_table;
use super::{groups, limited};
use orchestrator_queue_rules::storage::Limits;
use rusqlite::{Connection, OptionalExtension};

/// Version of our tables.
pub(super) const OWN_VERSION: i64 = 1;

/// Number of objects with our prefix: ten tables, an index, eight triggers.
const OWN_OBJECTS: i64 = 19;

const OWN_TABLES: &str = "
CREATE TABLE IF NOT EXISTS orchestrator_meta (
    name text PRIMARY KEY,
    value integer NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_group (
    fetcher_id integer NOT NULL,
    run_started integer NOT NULL,
    held integer NOT NULL,
    started_key integer NOT NULL,
    jitter_key integer NOT NULL,
    attr_path text NOT NULL,
    PRIMARY KEY (fetcher_id, run_started, held, started_key, jitter_key, attr_path)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_deleted_run (
    fetcher_id integer NOT NULL,
    run_started integer NOT NULL,
    PRIMARY KEY (fetcher_id, run_started)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_handout (
    handout_id integer PRIMARY KEY,
    attr_path text NOT NULL UNIQUE,
    fetcher_id integer NOT NULL,
    started integer NOT NULL,
    runs text NOT NULL,
    had_log integer NOT NULL,
    previous_started integer,
    previous_finished integer,
    previous_exit_code integer,
    delivered integer NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS orchestrator_attempt (
    started integer NOT NULL,
    handout_id integer NOT NULL,
    attr_path text NOT NULL,
    fetcher text,
    connection text NOT NULL,
    previous_started integer,
    previous_finished integer,
    previous_exit_code integer,
    PRIMARY KEY (started, handout_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_failure (
    number integer PRIMARY KEY,
    attr_path text NOT NULL,
    started integer NOT NULL,
    finished integer NOT NULL,
    exit_code integer NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS orchestrator_run (
    fetcher_id integer NOT NULL,
    run_started integer NOT NULL,
    added integer NOT NULL,
    PRIMARY KEY (fetcher_id, run_started)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_bump (
    attr_path text PRIMARY KEY,
    number integer NOT NULL,
    handout_id integer
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_limited (
    attr_path text PRIMARY KEY,
    fetcher text
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orchestrator_offer (
    attr_path text NOT NULL,
    fetcher_id integer NOT NULL,
    claim text NOT NULL,
    state integer NOT NULL DEFAULT 0,
    exit_code integer,
    seconds integer,
    finished integer,
    PRIMARY KEY (attr_path, fetcher_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS orchestrator_handout_delivered ON orchestrator_handout (started) WHERE delivered = 1;";

/// Removes the group of `$attr` and `$fetcher` from every position that its rows allow.
const CLEAR_GROUP: &str = "
    DELETE FROM orchestrator_group
    WHERE (fetcher_id, run_started, held, started_key, jitter_key, attr_path) IN (
        SELECT q.fetcher_id, q.fetcher_run_started, h.held, ifnull(q.last_started, $min), ifnull(q.order_jitter, $min),
            q.attr_path
        FROM queue AS q CROSS JOIN ($held_rows) AS h
        WHERE q.attr_path = $attr AND ($fetcher IS NULL OR q.fetcher_id = $fetcher));";

/// Removes the group of the row OLD from the position of its old key.
const CLEAR_OLD: &str = "
    DELETE FROM orchestrator_group
    WHERE fetcher_id = OLD.fetcher_id AND run_started = OLD.fetcher_run_started AND held IN ($held_values)
        AND started_key = ifnull(OLD.last_started, $min) AND jitter_key = ifnull(OLD.order_jitter, $min)
        AND attr_path = OLD.attr_path;";

/// Inserts the group at its position if it is ready.
const INSERT_GROUP: &str = "
    INSERT INTO orchestrator_group (fetcher_id, run_started, held, started_key, jitter_key, attr_path)
    SELECT q.fetcher_id, q.fetcher_run_started,
        EXISTS (SELECT 1 FROM log WHERE log.attr_path = $attr AND log.finished IS NULL),
        ifnull(q.last_started, $min), ifnull(q.order_jitter, $min), q.attr_path
    FROM queue AS q
    WHERE q.attr_path = $attr AND ($fetcher IS NULL OR q.fetcher_id = $fetcher) AND q.is_dequeued = 0
        AND NOT EXISTS (
            SELECT 1 FROM orchestrator_deleted_run AS d
            WHERE d.fetcher_id = q.fetcher_id AND d.run_started = q.fetcher_run_started)
        AND NOT EXISTS (
            SELECT 1 FROM queue AS newer
            WHERE newer.attr_path = $attr AND newer.fetcher_id = q.fetcher_id
                AND newer.fetcher_run_started > q.fetcher_run_started
                AND NOT EXISTS (
                    SELECT 1 FROM orchestrator_deleted_run AS d
                    WHERE d.fetcher_id = newer.fetcher_id AND d.run_started = newer.fetcher_run_started));";

/// Creates our tables and triggers and fills the tables of groups and limited jobs, unless all of them
/// exist for these limits. Runs in the caller's transaction. The inner error is the version of a newer
/// program's tables.
pub(super) fn adopt(conn: &Connection, limits: &Limits) -> rusqlite::Result<Result<(), i64>> {
    let fingerprint = limited::fingerprint(limits);
    let same_limits = meta(conn, "limits")?.unwrap_or(0) == fingerprint;
    if let Some(newer) = meta(conn, "own_version")?.filter(|found| *found > OWN_VERSION) {
        return Ok(Err(newer));
    }
    if same_limits && is_adopted(conn)? {
        return Ok(Ok(()));
    }
    conn.execute_batch(OWN_TABLES)?;
    conn.execute_batch(&triggers(limits))?;
    groups::rebuild(conn)?;
    limited::rebuild(conn)?;
    conn.execute(
        "INSERT OR REPLACE INTO orchestrator_meta (name, value) VALUES ('own_version', ?1), ('limits', ?2)",
        [OWN_VERSION, fingerprint],
    )?;
    Ok(Ok(()))
}

/// Returns true if our tables and triggers of this version exist.
pub(super) fn is_adopted(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(meta(conn, "own_version")? == Some(OWN_VERSION) && own_objects(conn)? == OWN_OBJECTS)
}

fn meta(conn: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    if !has_table(conn, "orchestrator_meta")? {
        return Ok(None);
    }
    conn.query_row("SELECT value FROM orchestrator_meta WHERE name = ?1", [name], |row| row.get(0)).optional()
}

fn own_objects(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("SELECT count(*) FROM sqlite_schema WHERE name GLOB 'orchestrator_*'", [], |row| {
        row.get(0)
    })
}

/// Records the runs that another program added, with the current time, and forgets those that it
/// removed. Runs in the caller's transaction.
pub(super) fn adopt_runs(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(
        "INSERT INTO orchestrator_run (fetcher_id, run_started, added)
             SELECT fetcher_id, run_started, unixepoch() FROM fetcher_runs WHERE true ON CONFLICT DO NOTHING;
         DELETE FROM orchestrator_run
             WHERE (fetcher_id, run_started) NOT IN (SELECT fetcher_id, run_started FROM fetcher_runs);",
    )
}

/// Grows with every opening of this database. Runs in the caller's transaction.
pub(super) fn next_incarnation(conn: &Connection, at_least: i64) -> rusqlite::Result<i64> {
    conn.query_row(
        "INSERT INTO orchestrator_meta (name, value) VALUES ('incarnation', ?1)
         ON CONFLICT (name) DO UPDATE SET value = max(value + 1, ?1) RETURNING value",
        [at_least],
        |row| row.get(0),
    )
}

fn triggers(limits: &Limits) -> String {
    let columns: Vec<String> = groups::columns(limits).iter().map(usize::to_string).collect();
    let fill = |template: &str, attr: &str, fetcher: &str| fill(template, attr, fetcher, &columns);
    let clear = |attr: &str, fetcher: &str| fill(CLEAR_GROUP, attr, fetcher);
    let insert = |attr: &str, fetcher: &str| fill(INSERT_GROUP, attr, fetcher);
    let new_group = clear("NEW.attr_path", "NEW.fetcher_id") + &insert("NEW.attr_path", "NEW.fetcher_id");
    let old_group = clear("OLD.attr_path", "OLD.fetcher_id") + &insert("OLD.attr_path", "OLD.fetcher_id");
    let new_attr = clear("NEW.attr_path", "NULL") + &insert("NEW.attr_path", "NULL");
    let old_attr = clear("OLD.attr_path", "NULL") + &insert("OLD.attr_path", "NULL");
    let clear_old = fill(CLEAR_OLD, "", "");
    let changed = "NEW.attr_path IS NOT OLD.attr_path OR NEW.fetcher_id IS NOT OLD.fetcher_id";
    let mut sql = String::new();
    let mut add = |name: &str, event: &str, body: &str| {
        sql += &format!(
            "DROP TRIGGER IF EXISTS orchestrator_{name};\nCREATE TRIGGER orchestrator_{name} AFTER {event}\nBEGIN{body}\nEND;\n"
        );
    };
    add("queue_insert", "INSERT ON queue", &new_group);
    add("queue_delete", "DELETE ON queue", &(clear_old.clone() + &old_group));
    add(
        "queue_update",
        "UPDATE OF fetcher_id, fetcher_run_started, attr_path, is_dequeued, last_started, order_jitter ON queue",
        &(clear_old + &new_group),
    );
    add("queue_move", &format!("UPDATE OF fetcher_id, attr_path ON queue WHEN {changed}"), &old_group);
    add("log_insert", "INSERT ON log", &new_attr);
    add("log_update", "UPDATE OF started, finished ON log", &new_attr);
    add(
        "log_move",
        "UPDATE OF attr_path ON log WHEN NEW.attr_path IS NOT OLD.attr_path",
        &(old_attr.clone() + &new_attr),
    );
    add("log_delete", "DELETE ON log", &old_attr);
    sql
}

fn fill(template: &str, attr: &str, fetcher: &str, columns: &[String]) -> String {
    template
        .replace("$attr", attr)
        .replace("$fetcher", fetcher)
        .replace("$min", groups::NULL_KEY_SQL)
        .replace("$held_rows", &format!("SELECT {}", columns.join(" AS held UNION ALL SELECT ")))
        .replace("$held_values", &columns.join(", "))
}
