//! Creation and detection of databases of schema version 1 (CONTRACT PD06 to PD08).

use orchestrator_edge::postgres::{Row, Session};

use super::{
    layout::{columns, find_all, find_first, is_denormalized, pairs},
    read::get,
    session,
    write::insert_found,
};
use crate::{flavor::Flavor, method::Relation, store::StoreError};

/// Supported schema version.
const VERSION: i32 = 1;

/// Creates the tables and functions of schema version 1 in `flavor`, in one transaction. The
/// original's programs can use them. An existing database of the same version and flavor stays as
/// it is.
///
/// # Errors
/// [`StoreError::Refused`] if the database holds another version or flavor, or tables of the same
/// names, or if `dsn` is invalid. [`StoreError::Unavailable`] if it cannot be reached or written.
pub async fn init(dsn: &str, flavor: Flavor) -> Result<(), StoreError> {
    const ACTION: &str = "creating its tables";
    let mut session = session::open(dsn).await?;
    let mut found = flavor_of(&mut session).await?;
    if found.is_none() {
        if has_tables(&mut session).await? {
            return Err(StoreError::Refused(
                "the database holds tables of the same names but no schema version: name an empty database"
                    .to_owned(),
            ));
        }
        // Any role could hold an advisory lock. Of concurrent calls, one creates the tables; the names are
        // taken for the others.
        let sql = format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {}; COMMIT", text(flavor));
        let created = session.batch(ACTION, &sql).await;
        if created.is_err() {
            session.batch(ACTION, "ROLLBACK").await?;
        }
        found = flavor_of(&mut session).await?;
        if found.is_none() {
            created?;
        }
    }
    match found {
        Some(found) if found != flavor => Err(StoreError::Refused(format!(
            "the database has flavor {found}, not {flavor}: name another database or ask for {found}"
        ))),
        _ => Ok(()),
    }
}

/// Returns the flavor of a database of version 1; None without a version table.
///
/// # Errors
/// [`StoreError::Refused`] if it has another version or an unknown flavor.
pub(super) async fn flavor_of(session: &mut Session) -> Result<Option<Flavor>, StoreError> {
    const ACTION: &str = "reading its schema version";
    let exists = "SELECT to_regclass('dbversion') IS NOT NULL";
    let rows = session.query(ACTION, exists, Vec::new()).await?;
    if !any(&rows)? {
        return Ok(None);
    }
    let sql = "SELECT max(version), swh_get_dbflavor()::text FROM dbversion";
    let rows = session.query(ACTION, sql, Vec::new()).await?;
    let row =
        rows.first().ok_or_else(|| StoreError::Refused("the database has no schema version".to_owned()))?;
    match get::<Option<i32>>(row, 0)? {
        Some(VERSION) => {}
        found => {
            let found = found.map_or_else(|| "unknown".to_owned(), |version| version.to_string());
            return Err(StoreError::Refused(format!(
                "the database has schema version {found}, only {VERSION} is known: name another database"
            )));
        }
    }
    let flavor = get::<&str>(row, 1)?.parse().map_err(|error| StoreError::Refused(format!("{error}")))?;
    Ok(Some(flavor))
}

async fn has_tables(session: &mut Session) -> Result<bool, StoreError> {
    let sql = "SELECT to_regclass('content') IS NOT NULL OR to_regclass('revision') IS NOT NULL";
    let rows = session.query("looking for its tables", sql, Vec::new()).await?;
    any(&rows)
}

fn any(rows: &[Row]) -> Result<bool, StoreError> {
    rows.first().map_or(Ok(false), |row| get(row, 0))
}

fn text(flavor: Flavor) -> String {
    let mut sql = include_str!("schema.sql").to_owned();
    for relation in Relation::ALL.into_iter().filter(|relation| relation.has_path()) {
        sql += &relation_table(relation, flavor);
    }
    sql += &functions(flavor);
    sql += &format!(
        "INSERT INTO dbflavor (flavor) VALUES ('{flavor}');
INSERT INTO dbversion (version, release, description) VALUES ({VERSION}, now(), 'Work In Progress');"
    );
    sql
}

fn relation_table(relation: Relation, flavor: Flavor) -> String {
    let table = relation.value();
    let (src, dst) = columns(relation);
    if is_denormalized(relation, flavor) {
        return format!(
            "CREATE TABLE {table} ({src} bigint NOT NULL, {dst} bigint[], location bigint[]);
CREATE UNIQUE INDEX ON {table} ({src});"
        );
    }
    format!(
        "CREATE TABLE {table} ({src} bigint NOT NULL, {dst} bigint NOT NULL, location bigint);
CREATE UNIQUE INDEX ON {table} ({src}, {dst}, location);"
    )
}

/// The original's storage calls these functions. This program does not call them, but runs the same SQL.
fn functions(flavor: Flavor) -> String {
    let (first, all) = (find_first(flavor), find_all(flavor));
    let occurrence =
        "TABLE (content sha1_git, revision sha1_git, date timestamptz, origin text, path unix_path)";
    let adds: String = Relation::ALL.into_iter().map(|relation| add_branch(relation, flavor)).collect();
    let gets: String = Relation::ALL.into_iter().map(|relation| get_branch(relation, flavor)).collect();
    // The tables that a caller names besides the relation follow from it.
    format!(
        "CREATE FUNCTION swh_provenance_content_find_first(content_id sha1_git) RETURNS {occurrence}
LANGUAGE sql STABLE AS $find$ {first} $find$;
CREATE FUNCTION swh_provenance_content_find_all(content_id sha1_git, early_cut int) RETURNS {occurrence}
LANGUAGE sql STABLE AS $find$ {all} $find$;
CREATE FUNCTION swh_provenance_relation_add_from_temp(rel_table regclass, src_table regclass, dst_table regclass)
RETURNS void LANGUAGE plpgsql AS $add$ BEGIN
{adds} RAISE EXCEPTION 'no relation %', rel_table; END $add$;
CREATE FUNCTION swh_provenance_relation_get(
    rel_table regclass, src_table regclass, dst_table regclass, filter rel_flt, ids sha1_git[]
) RETURNS TABLE (src sha1_git, dst sha1_git, path unix_path) LANGUAGE plpgsql STABLE AS $get$
#variable_conflict use_column
BEGIN
{gets} RAISE EXCEPTION 'no relation %', rel_table; END $get$;
"
    )
}

fn add_branch(relation: Relation, flavor: Flavor) -> String {
    let (src, dst) = (relation.source().value(), relation.destination().value());
    let (loc, location) = if relation.has_path() && flavor.has_paths() {
        ("l.id", "JOIN location l ON l.path = n.path")
    } else {
        ("NULL::bigint", "")
    };
    let insert = insert_found(relation, flavor);
    format!(
        "IF rel_table = '{relation}'::regclass THEN
WITH found AS MATERIALIZED (
    SELECT s.id AS src, d.id AS dst, {loc} AS loc FROM tmp_relation_add n
    JOIN {src} s ON s.sha1 = n.src JOIN {dst} d ON d.sha1 = n.dst {location}
)
{insert};
RETURN; END IF;
",
        relation = relation.value()
    )
}

fn get_branch(relation: Relation, flavor: Flavor) -> String {
    let (src, dst) = (relation.source().value(), relation.destination().value());
    let pairs = pairs(relation, flavor);
    format!(
        "IF rel_table = '{relation}'::regclass THEN
RETURN QUERY SELECT s.sha1, d.sha1, l.path FROM {pairs} AS p
    JOIN {src} s ON s.id = p.src JOIN {dst} d ON d.id = p.dst LEFT JOIN location l ON l.id = p.loc
    WHERE CASE filter WHEN 'filter-src' THEN s.sha1 = ANY (ids) WHEN 'filter-dst' THEN d.sha1 = ANY (ids) ELSE true END;
RETURN; END IF;
",
        relation = relation.value()
    )
}
