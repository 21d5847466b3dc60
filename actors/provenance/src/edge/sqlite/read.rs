//! Queries. Each is one statement, so its result is consistent under concurrent writes.
//!
//! Identifiers are passed as one JSON array of hex digits. `CROSS JOIN` fixes SQLite's join order:
//! from the identifiers to the rows.

use std::fmt::Write;

use bytes::Bytes;
use rusqlite::{Connection, Params, Row, params};

use super::pages;
use crate::{
    method::{Entity, Relation},
    row::{Date, RevisionData, Sha1Git},
    store::{Occurrence, Query, QueryResult},
};

/// Direct occurrences of a content.
const IN_REVISION: &str = "
    SELECT found.dst AS revision, location.path AS path
    FROM content
    CROSS JOIN content_in_revision AS found ON found.src = content.id
    CROSS JOIN location ON location.id = found.location
    WHERE content.sha1 = ?1";

/// Occurrences through directories. SQLite concatenates blobs as text, hence the cast.
const THROUGH_DIRECTORY: &str = "
    SELECT above.dst AS revision,
           CASE WHEN prefix.path IN (x'', x'2e') THEN suffix.path
                ELSE CAST(prefix.path || x'2f' || suffix.path AS blob) END AS path
    FROM content
    CROSS JOIN content_in_directory AS below ON below.src = content.id
    CROSS JOIN directory_in_revision AS above ON above.src = below.dst
    CROSS JOIN location AS suffix ON suffix.id = below.location
    CROSS JOIN location AS prefix ON prefix.id = above.location
    WHERE content.sha1 = ?1";

pub(super) fn answer(conn: &Connection, query: &Query) -> rusqlite::Result<QueryResult> {
    match query {
        Query::Contents(ids) => dates(conn, Entity::Content, ids),
        Query::Directories(ids) => dates(conn, Entity::Directory, ids),
        Query::Revisions(ids) => revisions(conn, ids),
        Query::Origins(ids) => {
            let sql = format!("SELECT e.sha1, e.url FROM {}", wanted(Entity::Origin));
            collect(conn, &sql, [list(ids)], |row| Ok((id(row, 0)?, row.get(1)?))).map(QueryResult::Urls)
        }
        Query::FindFirst(content) => occurrences(conn, IN_REVISION, *content, Some(1)),
        Query::FindAll { id, limit } => {
            occurrences(conn, &format!("{IN_REVISION} UNION {THROUGH_DIRECTORY}"), *id, *limit)
        }
        Query::Counts => counts(conn),
        Query::Page { listing, after, limit } => {
            pages::page(conn, *listing, after.as_ref(), *limit).map(QueryResult::Page)
        }
    }
}

fn dates(conn: &Connection, entity: Entity, ids: &[Sha1Git]) -> rusqlite::Result<QueryResult> {
    let sql = format!("SELECT e.sha1, e.date FROM {} WHERE e.date IS NOT NULL", wanted(entity));
    collect(conn, &sql, [list(ids)], |row| Ok((id(row, 0)?, in_range(1, row.get(1)?)?)))
        .map(QueryResult::Dates)
}

fn revisions(conn: &Connection, ids: &[Sha1Git]) -> rusqlite::Result<QueryResult> {
    let sql = format!(
        "SELECT e.sha1, e.date, origin.sha1 FROM {} LEFT JOIN origin ON origin.id = e.origin
         WHERE e.date IS NOT NULL OR e.origin IS NOT NULL",
        wanted(Entity::Revision)
    );
    collect(conn, &sql, [list(ids)], |row| {
        let origin = row.get::<_, Option<[u8; 20]>>(2)?.map(Sha1Git);
        Ok((id(row, 0)?, RevisionData { date: date(row, 1)?, origin }))
    })
    .map(QueryResult::Revisions)
}

/// Table of `entity`, as `e`, restricted to the identifiers in the first parameter.
fn wanted(entity: Entity) -> String {
    format!("json_each(?1) AS wanted CROSS JOIN {} AS e ON e.sha1 = unhex(wanted.value)", entity.value())
}

fn occurrences(
    conn: &Connection,
    occurrences_sql: &str,
    content: Sha1Git,
    limit: Option<u64>,
) -> rusqlite::Result<QueryResult> {
    let sql = format!(
        "SELECT revision.sha1, revision.date, origin.url, found.path
         FROM ({occurrences_sql}) AS found
         CROSS JOIN revision ON revision.id = found.revision
         LEFT JOIN origin ON origin.id = revision.origin
         ORDER BY revision.date IS NULL, revision.date, revision.sha1, origin.url IS NULL, origin.url, found.path
         LIMIT ?2"
    );
    // -1 means no limit.
    let limit = limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    collect(conn, &sql, params![content.0, limit], |row| {
        Ok(Occurrence {
            content,
            revision: id(row, 0)?,
            date: date(row, 1)?,
            origin: row.get(2)?,
            path: Bytes::from(row.get::<_, Vec<u8>>(3)?),
        })
    })
    .map(QueryResult::Occurrences)
}

fn counts(conn: &Connection) -> rusqlite::Result<QueryResult> {
    let entities = Entity::ALL.into_iter().map(Entity::value);
    let tables = entities.chain(["location"]).chain(Relation::ALL.into_iter().map(Relation::value));
    let selects: Vec<_> = tables.map(|table| format!("SELECT '{table}', count(*) FROM {table}")).collect();
    collect(conn, &selects.join(" UNION ALL "), [], |row| {
        Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
    })
    .map(QueryResult::Counts)
}

fn collect<T, C: FromIterator<T>>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<C> {
    conn.prepare_cached(sql)?.query_map(params, read)?.collect()
}

/// JSON array for `json_each`.
fn list(ids: &[Sha1Git]) -> String {
    let mut text = String::with_capacity(2 + ids.len() * 43);
    text.push('[');
    for (i, id) in ids.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        // Writing to a String does not fail.
        let _ = write!(text, "{comma}\"{id}\"");
    }
    text.push(']');
    text
}

fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<Sha1Git> {
    row.get(column).map(Sha1Git)
}

fn date(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Date>> {
    row.get::<_, Option<i64>>(column)?.map(|micros| in_range(column, micros)).transpose()
}

fn in_range(column: usize, micros: i64) -> rusqlite::Result<Date> {
    Date::from_micros(micros).ok_or(rusqlite::Error::IntegralValueOutOfRange(column, micros))
}
