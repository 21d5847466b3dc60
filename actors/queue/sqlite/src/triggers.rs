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

/// Number of objects with our prefix: ten tables, a view, an index, eight triggers. Programs that keep the
/// groups in `orchestrator_group` have 17 or 19, and compare the numbers alone.
const OWN_OBJECTS: i64 = 20;

const OWN_TABLES: &str = include_str!("sql/own_tables.sql");

/// Parts of the triggers. `$attr` and `$fetcher` are those of the group, or NULL for all fetchers.
const CLEAR_GROUP: &str = include_str!("sql/trigger_clears_group.sql");

const CLEAR_OLD: &str = include_str!("sql/trigger_clears_old_position.sql");

const INSERT_GROUP: &str = include_str!("sql/trigger_inserts_group.sql");

/// Creates our tables and triggers and fills the tables of groups and limited jobs, unless all of them
/// exist for these limits. Runs in the caller's transaction. The inner error is the version of a newer
/// program's tables.
pub(super) fn adopt(conn: &Connection, limits: &Limits) -> rusqlite::Result<Result<(), i64>> {
    let fingerprint = limited::fingerprint(limits);
    let same_limits = meta(conn, "limits")?.unwrap_or(0) == fingerprint;
    if let Some(newer) = meta(conn, "own_version")?.filter(|found| *found > OWN_VERSION) {
        return Ok(Err(newer));
    }
    let triggers = triggers(limits);
    let is_same = same_limits && is_adopted(conn)? && meta(conn, "schema")? == Some(schema(conn, &triggers)?);
    if is_same {
        return Ok(Ok(()));
    }
    conn.execute_batch(OWN_TABLES)?;
    // Former programs kept the groups in this one, with class and hold in one column.
    conn.execute_batch("DROP TABLE IF EXISTS orchestrator_group")?;
    conn.execute_batch(&triggers)?;
    groups::rebuild(conn)?;
    limited::rebuild(conn)?;
    conn.execute(
        "INSERT OR REPLACE INTO orchestrator_meta (name, value)
         VALUES ('own_version', ?1), ('limits', ?2), ('schema', ?3)",
        [OWN_VERSION, fingerprint, schema(conn, &triggers)?],
    )?;
    Ok(Ok(()))
}

/// Returns true if our tables and triggers of this version exist.
pub(super) fn is_adopted(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(meta(conn, "own_version")? == Some(OWN_VERSION) && own_objects(conn)? == OWN_OBJECTS)
}

/// Fingerprint of our objects as they are, and as this program makes them. Another program changes the first
/// one, and another version of this program has another second one.
fn schema(conn: &Connection, triggers: &str) -> rusqlite::Result<i64> {
    let mut statement = conn.prepare(
        "SELECT name, sql FROM sqlite_schema WHERE name GLOB 'orchestrator_*' AND sql IS NOT NULL ORDER BY name",
    )?;
    let objects = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let objects: Vec<(String, String)> = objects.collect::<rusqlite::Result<_>>()?;
    Ok(limited::digest(&format!("{OWN_TABLES}{triggers}{objects:?}")))
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
    conn.execute_batch(include_str!("sql/adopt_runs.sql"))
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
    let classes: Vec<String> = (0..=limits.0.len()).map(|class| class.to_string()).collect();
    let fill = |template: &str, attr: &str, fetcher: &str| fill(template, attr, fetcher, &classes);
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
            "DROP TRIGGER IF EXISTS orchestrator_{name};\nCREATE TRIGGER orchestrator_{name} AFTER {event}\nBEGIN\n{body}END;\n"
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

fn fill(template: &str, attr: &str, fetcher: &str, classes: &[String]) -> String {
    template
        .replace("$attr", attr)
        .replace("$fetcher", fetcher)
        .replace("$min", groups::NULL_KEY_SQL)
        .replace("$classes", &format!("SELECT {} AS class", classes.join(" AS class UNION ALL SELECT ")))
        .replace("$class_values", &classes.join(", "))
}
