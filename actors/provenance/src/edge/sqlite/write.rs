//! Writes of the rows of one method, merged with stored rows (CONTRACT PO01 to PO05).

use std::collections::HashMap;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::{
    method::{Entity, Relation},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    store::OmittedRows,
};

/// Writes `rows` in the caller's transaction, and adds the left-out rows to `omitted`.
pub(super) fn group(conn: &Connection, rows: &Rows, omitted: &mut OmittedRows) -> rusqlite::Result<()> {
    match rows {
        Rows::Contents(rows) => dates(conn, Entity::Content, rows),
        Rows::Directories(rows) => dates(conn, Entity::Directory, rows),
        Rows::Revisions(rows) => revisions(conn, rows, omitted),
        Rows::Origins(rows) => origins(conn, rows, omitted),
        Rows::Locations(rows) => {
            let mut insert =
                conn.prepare_cached("INSERT INTO location (path) VALUES (?1) ON CONFLICT DO NOTHING")?;
            rows.iter().try_for_each(|path| insert.execute([&path[..]]).map(drop))
        }
        Rows::Relations(relation, rows) => relations(conn, *relation, rows, omitted),
    }
}

fn dates(conn: &Connection, entity: Entity, rows: &[(Sha1Git, Option<Date>)]) -> rusqlite::Result<()> {
    // Without the condition, unchanged rows would be written, too.
    let mut upsert = conn.prepare_cached(&format!(
        "INSERT INTO {table} (sha1, date) VALUES (?1, ?2)
         ON CONFLICT (sha1) DO UPDATE SET date = excluded.date
         WHERE excluded.date IS NOT NULL AND ({table}.date IS NULL OR excluded.date < {table}.date)",
        table = entity.value()
    ))?;
    rows.iter().try_for_each(|(id, date)| upsert.execute(params![id.0, date.map(Date::micros)]).map(drop))
}

fn revisions(
    conn: &Connection,
    rows: &[(Sha1Git, RevisionData)],
    omitted: &mut OmittedRows,
) -> rusqlite::Result<()> {
    let mut origins = Ids::of(conn, Entity::Origin)?;
    let mut upsert = conn.prepare_cached(
        "INSERT INTO revision (sha1, date, origin) VALUES (?1, ?2, ?3)
         ON CONFLICT (sha1) DO UPDATE SET
             date = coalesce(min(revision.date, excluded.date), revision.date, excluded.date),
             origin = coalesce(excluded.origin, revision.origin)
         WHERE (excluded.date IS NOT NULL AND (revision.date IS NULL OR excluded.date < revision.date))
            OR (excluded.origin IS NOT NULL AND excluded.origin IS NOT revision.origin)",
    )?;
    for (id, data) in rows {
        let origin = match &data.origin {
            Some(origin) => origins.find(&origin.0)?,
            None => None,
        };
        omitted.origin_unknown += u64::from(data.origin.is_some() && origin.is_none());
        upsert.execute(params![id.0, data.date.map(Date::micros), origin])?;
    }
    Ok(())
}

fn origins(conn: &Connection, rows: &[(Sha1Git, String)], omitted: &mut OmittedRows) -> rusqlite::Result<()> {
    let mut insert =
        conn.prepare_cached("INSERT INTO origin (sha1, url) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
    let mut known = conn.prepare_cached("SELECT 1 FROM origin WHERE sha1 = ?1")?;
    for (id, url) in rows {
        if insert.execute(params![id.0, url])? == 0 && !known.exists([id.0])? {
            omitted.url_taken += 1;
        }
    }
    Ok(())
}

fn relations(
    conn: &Connection,
    relation: Relation,
    rows: &[RelationRow],
    omitted: &mut OmittedRows,
) -> rusqlite::Result<()> {
    let mut sources = Ids::of(conn, relation.source())?;
    let mut destinations = Ids::of(conn, relation.destination())?;
    let mut locations = relation.has_path().then(|| Ids::of_paths(conn)).transpose()?;
    let (columns, values) =
        if relation.has_path() { ("src, dst, location", "?1, ?2, ?3") } else { ("src, dst", "?1, ?2") };
    let mut insert = conn.prepare_cached(&format!(
        "INSERT INTO {} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING",
        relation.value()
    ))?;
    for row in rows {
        let (src, dst) = (sources.find(&row.src.0)?, destinations.find(&row.dst.0)?);
        let location = match (&mut locations, &row.path) {
            (Some(locations), Some(path)) => locations.find(path)?,
            _ => None,
        };
        match (src, dst, location) {
            (Some(src), Some(dst), Some(location)) => insert.execute([src, dst, location])?,
            (Some(src), Some(dst), None) if !relation.has_path() => insert.execute([src, dst])?,
            _ => {
                omitted.unregistered += 1;
                0
            }
        };
    }
    Ok(())
}

/// Ids of one table, each looked up once. Valid while the table is not written.
struct Ids<'c, 'k> {
    select: CachedStatement<'c>,
    found: HashMap<&'k [u8], Option<i64>>,
}

impl<'c, 'k> Ids<'c, 'k> {
    fn of(conn: &'c Connection, entity: Entity) -> rusqlite::Result<Self> {
        Self::from(conn, &format!("SELECT id FROM {} WHERE sha1 = ?1", entity.value()))
    }

    fn of_paths(conn: &'c Connection) -> rusqlite::Result<Self> {
        Self::from(conn, "SELECT id FROM location WHERE path = ?1")
    }

    fn from(conn: &'c Connection, sql: &str) -> rusqlite::Result<Self> {
        Ok(Self { select: conn.prepare_cached(sql)?, found: HashMap::new() })
    }

    fn find(&mut self, key: &'k [u8]) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.found.get(key) {
            return Ok(*id);
        }
        let id = self.select.query_row([key], |row| row.get(0)).optional()?;
        self.found.insert(key, id);
        Ok(id)
    }
}
