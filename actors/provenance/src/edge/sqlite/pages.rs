//! Pages of listings, each read from an index at the end of the page before.

use bytes::Bytes;
use rusqlite::{Connection, Row, params_from_iter, types::Value};

use crate::{
    edge::relation_keys::{self, Key},
    listing::{End, Listing, Position},
    method::Relation,
    row::{RelationRow, Sha1Git},
    store::{ListedRows, Page},
};

pub(super) fn page(
    conn: &Connection,
    listing: Listing,
    after: Option<&Position>,
    limit: usize,
) -> rusqlite::Result<Page> {
    let (rows, next) = match listing {
        Listing::Entities(entity) => {
            let (ids, next) = column(conn, entity.value(), "sha1", after, limit, |row| row.get(0))?;
            (ListedRows::Ids(ids.into_iter().map(Sha1Git).collect()), next)
        }
        Listing::Locations => {
            let path = |row: &Row<'_>| row.get::<_, Vec<u8>>(0);
            let (paths, next) = column(conn, "location", "path", after, limit, path)?;
            (ListedRows::Paths(paths.into_iter().map(Bytes::from).collect()), next)
        }
        Listing::Relation(relation, end) => relations(conn, relation, end, after, limit)?,
    };
    Ok(Page { rows, next })
}

/// `column` has a unique index. The position is the end of the page.
fn column<T: AsRef<[u8]>>(
    conn: &Connection,
    table: &str,
    column: &str,
    after: Option<&Position>,
    limit: usize,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<(Vec<T>, Option<Position>)> {
    // An empty path is a value, too.
    let beyond = if after.is_some() { ">" } else { ">=" };
    let sql = format!("SELECT {column} FROM {table} WHERE {column} {beyond} ?1 ORDER BY {column} LIMIT ?2");
    let after = after.map_or(&[][..], |after| &after.0);
    let values: Vec<T> =
        conn.prepare_cached(&sql)?.query_map((after, rows_max(limit)), read)?.collect::<Result<_, _>>()?;
    let last = values.last().filter(|_| values.len() >= limit);
    let next = last.map(|last| Position(Bytes::copy_from_slice(last.as_ref())));
    Ok((values, next))
}

fn relations(
    conn: &Connection,
    relation: Relation,
    end: Option<End>,
    after: Option<&Position>,
    limit: usize,
) -> rusqlite::Result<(ListedRows, Option<Position>)> {
    let keys = relation_keys::varying(relation, end);
    let id = match end {
        Some(End::Source(id) | End::Destination(id)) => Value::Blob(id.0.to_vec()),
        None => Value::Null,
    };
    let mut values = vec![id, Value::Integer(rows_max(limit))];
    values.extend(relation_keys::decode(after, keys.len()).into_iter().map(Value::Integer));
    let mut statement = conn.prepare_cached(&relation_sql(relation, end, &keys))?;
    let mut found = statement.query(params_from_iter(values))?;
    let (mut rows, mut count, mut last) = (Vec::new(), 0, Vec::new());
    while let Some(row) = found.next()? {
        count += 1;
        last = (0..keys.len()).map(|key| row.get(3 + key)).collect::<Result<_, _>>()?;
        let path = row.get::<_, Option<Vec<u8>>>(2)?.map(Bytes::from);
        if let (Some(src), Some(dst)) = (row.get(0)?, row.get(1)?) {
            rows.push(RelationRow { src: Sha1Git(src), dst: Sha1Git(dst), path });
        }
    }
    let next = (count >= limit).then(|| relation_keys::encode(&last));
    Ok((ListedRows::Relations(rows.into_iter().collect()), next))
}

/// Parameters: the identifier, the number of rows, and one for each key.
fn relation_sql(relation: Relation, end: Option<End>, keys: &[Key]) -> String {
    let (src, dst) = (relation.source().value(), relation.destination().value());
    let fixed = match end {
        None => String::new(),
        Some(End::Source(_)) => format!("r.src = (SELECT id FROM {src} WHERE sha1 = ?1) AND"),
        Some(End::Destination(_)) => format!("r.dst = (SELECT id FROM {dst} WHERE sha1 = ?1) AND"),
    };
    let name = |key: &Key| match key {
        Key::Source => "r.src",
        Key::Destination => "r.dst",
        Key::Location => "r.location",
    };
    let columns = keys.iter().map(name).collect::<Vec<_>>().join(", ");
    let after = (0..keys.len()).map(|key| format!("?{}", key + 3)).collect::<Vec<_>>().join(", ");
    let (path, location) = if relation.has_path() {
        ("l.path", "LEFT JOIN location AS l ON l.id = r.location")
    } else {
        ("NULL", "")
    };
    format!(
        "SELECT s.sha1, d.sha1, {path}, {columns} FROM {rows} AS r
         LEFT JOIN {src} AS s ON s.id = r.src LEFT JOIN {dst} AS d ON d.id = r.dst {location}
         WHERE {fixed} ({columns}) > ({after}) ORDER BY {columns} LIMIT ?2",
        rows = relation.value()
    )
}

fn rows_max(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
