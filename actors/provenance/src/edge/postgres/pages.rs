//! Pages of listings, each read from an index at the end of the page before.

use bytes::Bytes;
use orchestrator_edge::postgres::{Params, Row, Session};

use super::{
    layout::{columns, is_denormalized},
    read::get,
};
use crate::{
    edge::relation_keys::{self, Key},
    flavor::Flavor,
    listing::{End, Listing, Position},
    method::Relation,
    row::{RelationRow, Sha1Git},
    store::{ListedRows, Page, StoreError},
};

const ACTION: &str = "reading a page of rows";

pub(super) async fn page(
    session: &mut Session,
    flavor: Flavor,
    listing: Listing,
    after: Option<&Position>,
    limit: usize,
) -> Result<Page, StoreError> {
    let (rows, next) = match listing {
        Listing::Entities(entity) => {
            let (ids, next) = column(session, entity.value(), "sha1", after, limit).await?;
            let ids = ids.iter().map(|row| get::<Sha1Git>(row, 0)).collect::<Result<_, _>>()?;
            (ListedRows::Ids(ids), next)
        }
        Listing::Locations => {
            let (paths, next) = column(session, "location", "path", after, limit).await?;
            let path = |row| get::<&[u8]>(row, 0).map(Bytes::copy_from_slice);
            (ListedRows::Paths(paths.iter().map(path).collect::<Result<_, _>>()?), next)
        }
        Listing::Relation(relation, end) => relations(session, flavor, relation, end, after, limit).await?,
    };
    Ok(Page { rows, next })
}

/// `column` has a unique index. The position is the end of the page.
async fn column(
    session: &mut Session,
    table: &str,
    column: &str,
    after: Option<&Position>,
    limit: usize,
) -> Result<(Vec<Row>, Option<Position>), StoreError> {
    // An empty path is a value, too.
    let beyond = if after.is_some() { ">" } else { ">=" };
    let sql = format!(
        "SELECT {column}::bytea FROM {table} WHERE {column} {beyond} $1::bytea ORDER BY {column} LIMIT $2::bigint"
    );
    let after = after.map_or(&[][..], |after| &after.0);
    let rows = session.query(ACTION, sql, vec![Box::new(after), Box::new(rows_max(limit))]).await?;
    let last = rows.last().filter(|_| rows.len() >= limit);
    let last = last.map(|row| get::<&[u8]>(row, 0).map(Bytes::copy_from_slice)).transpose()?;
    Ok((rows, last.map(Position)))
}

async fn relations(
    session: &mut Session,
    flavor: Flavor,
    relation: Relation,
    end: Option<End>,
    after: Option<&Position>,
    limit: usize,
) -> Result<(ListedRows, Option<Position>), StoreError> {
    let keys = relation_keys::varying(relation, end);
    let mut params: Params<'_> = vec![Box::new(rows_max(limit))];
    for key in relation_keys::decode(after, keys.len()) {
        params.push(Box::new(key));
    }
    if let Some(End::Source(id) | End::Destination(id)) = end {
        params.push(Box::new(id));
    }
    let found = session.query(ACTION, relation_sql(flavor, relation, end, &keys), params).await?;
    let mut rows = Vec::with_capacity(found.len());
    for row in &found {
        let path = get::<Option<&[u8]>>(row, 2)?.map(Bytes::copy_from_slice);
        if let (Some(src), Some(dst)) = (get(row, 0)?, get(row, 1)?) {
            rows.push(RelationRow { src, dst, path });
        }
    }
    let last = found.last().filter(|_| found.len() >= limit);
    let last = last.map(|row| (0..keys.len()).map(|key| get(row, 3 + key)).collect()).transpose()?;
    let next = last.map(|keys: Vec<i64>| relation_keys::encode(&keys));
    Ok((ListedRows::Relations(rows.into_iter().collect()), next))
}

/// Parameters: the number of rows, one for each key, and the identifier of the end. Rows that lack an end
/// count for the page, too, so that it is not taken for the last one.
fn relation_sql(flavor: Flavor, relation: Relation, end: Option<End>, keys: &[Key]) -> String {
    let (src, dst) = (relation.source().value(), relation.destination().value());
    let found = found_rows(flavor, relation, end, keys);
    let name = |key: &Key| match key {
        Key::Source => "found.src",
        Key::Destination => "found.dst",
        Key::Location => "coalesce(found.loc, 0)",
    };
    let order = keys.iter().map(name).collect::<Vec<_>>().join(", ");
    format!(
        "SELECT s.sha1::bytea, d.sha1::bytea, l.path::bytea, {order} FROM ({found}) AS found
LEFT JOIN {src} s ON s.id = found.src LEFT JOIN {dst} d ON d.id = found.dst
LEFT JOIN location l ON l.id = found.loc ORDER BY {order}"
    )
}

/// Query for the ids of a page: src, dst and loc.
fn found_rows(flavor: Flavor, relation: Relation, end: Option<End>, keys: &[Key]) -> String {
    let table = relation.value();
    let (src, dst) = columns(relation);
    let id = |of: &str| format!("(SELECT id FROM {of} WHERE sha1 = ${}::bytea)", keys.len() + 2);
    let (source, destination) = (id(relation.source().value()), id(relation.destination().value()));
    let after = (0..keys.len()).map(|key| format!("${}::bigint", key + 2)).collect::<Vec<_>>().join(", ");
    let listed = |name: fn(&Key, &str, &str) -> String| {
        keys.iter().map(|key| name(key, src, dst)).collect::<Vec<_>>().join(", ")
    };
    if !is_denormalized(relation, flavor) {
        let fixed = match end {
            None => String::new(),
            Some(End::Source(_)) => format!("r.{src} = {source} AND"),
            Some(End::Destination(_)) => format!("r.{dst} = {destination} AND"),
        };
        let names = listed(|key, src, dst| match key {
            Key::Source => format!("r.{src}"),
            Key::Destination => format!("r.{dst}"),
            Key::Location => "r.location".to_owned(),
        });
        let location = if relation.has_path() { "r.location" } else { "NULL::bigint" };
        return format!(
            "SELECT r.{src} AS src, r.{dst} AS dst, {location} AS loc FROM {table} r
WHERE {fixed} ({names}) > ({after}) ORDER BY {names} LIMIT $1::bigint"
        );
    }
    // Each source has at least one row. Read limit + 1 sources: the first may be finished already.
    let page = format!("ORDER BY r.{src} LIMIT $1::bigint + 1");
    let (sources, fixed) = match end {
        None => (format!("r.{src} >= $2::bigint AND cardinality(r.{dst}) > 0 {page}"), String::new()),
        Some(End::Source(_)) => (format!("r.{src} = {source}"), String::new()),
        Some(End::Destination(_)) => (
            format!("r.{src} >= $2::bigint AND {destination} = ANY (r.{dst}) {page}"),
            format!("p.dst = {destination} AND"),
        ),
    };
    let names = listed(|key, src, _| match key {
        Key::Source => format!("r.{src}"),
        Key::Destination => "p.dst".to_owned(),
        Key::Location => "coalesce(p.loc, 0)".to_owned(),
    });
    format!(
        "SELECT r.{src} AS src, p.dst, p.loc FROM (SELECT * FROM {table} r WHERE {sources}) r,
unnest(r.{dst}, r.location) AS p (dst, loc)
WHERE {fixed} ({names}) > ({after}) ORDER BY {names} LIMIT $1::bigint"
    )
}

fn rows_max(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
