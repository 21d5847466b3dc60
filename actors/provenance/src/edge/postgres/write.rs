//! Statements that write groups of rows: arrays in, one count out. Pure.

use std::collections::HashSet;

use orchestrator_edge::postgres::Params;

use super::layout::{columns, is_denormalized};
use crate::{
    flavor::Flavor,
    method::Relation,
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    store::{OmittedRows, StoreError, check},
};

/// Meaning of the count that a statement returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountMeaning {
    /// No count.
    Ignored,
    /// Rows of a relation with registered ends and path, of the given number.
    Registered(u64),
    /// Origins that are not stored.
    UrlTaken,
    /// Revisions with an origin that is not stored.
    OriginUnknown,
}

/// Statement, with the meaning of its count.
pub(super) struct Command<'a> {
    pub(super) sql: String,
    pub(super) params: Params<'a>,
    pub(super) meaning: CountMeaning,
}

impl CountMeaning {
    pub(super) fn count(self, count: i64, omitted: &mut OmittedRows) {
        let count = count.unsigned_abs();
        match self {
            Self::Ignored => {}
            Self::Registered(rows) => omitted.unregistered += rows.saturating_sub(count),
            Self::UrlTaken => omitted.url_taken += count,
            Self::OriginUnknown => omitted.origin_unknown += count,
        }
    }
}

pub(super) fn commands(groups: &[Rows], flavor: Flavor) -> Result<Vec<Command<'_>>, StoreError> {
    let mut commands = Vec::with_capacity(groups.len());
    groups.iter().try_for_each(check)?;
    for group in groups.iter().filter(|group| !group.is_empty()) {
        match group {
            Rows::Contents(rows) => commands.push(dated("content", rows)),
            Rows::Directories(rows) => commands.push(dated("directory", rows)),
            Rows::Revisions(rows) => commands.push(revisions(rows)),
            Rows::Origins(rows) => commands.extend(origins(rows)),
            Rows::Locations(rows) if flavor.has_paths() => {
                let mut paths: Vec<&[u8]> = rows.iter().map(|path| &path[..]).collect();
                paths.sort_unstable();
                commands.push(Command {
                    sql: "INSERT INTO location (path) SELECT unnest($1::bytea[]) ON CONFLICT DO NOTHING"
                        .to_owned(),
                    params: vec![Box::new(paths)],
                    meaning: CountMeaning::Ignored,
                });
            }
            Rows::Locations(_) => {}
            Rows::Relations(relation, rows) => commands.push(relations(*relation, rows, flavor)),
        }
    }
    Ok(commands)
}

/// NULLs never conflict in a unique index, so without paths two connections could store the same pair. In
/// that flavor, writers of a relation take advisory locks, always in the same order.
pub(super) fn opening(groups: &[Rows], flavor: Flavor) -> String {
    if flavor != Flavor::WithoutPath {
        return String::new();
    }
    let locked = Relation::ALL.into_iter().filter(|relation| {
        relation.has_path()
            && groups
                .iter()
                .any(|group| matches!(group, Rows::Relations(of, rows) if of == relation && !rows.is_empty()))
    });
    locked
        .map(|relation| {
            format!("SELECT pg_advisory_xact_lock('{}'::regclass::oid::bigint);", relation.value())
        })
        .collect()
}

/// Sorts rows by key: connections that write the same keys then wait for each other instead of
/// deadlocking, and index pages are written in order.
fn sorted<T, K: Ord>(rows: &[T], key: impl Fn(&T) -> K) -> Vec<&T> {
    let mut rows: Vec<&T> = rows.iter().collect();
    rows.sort_unstable_by_key(|row| key(row));
    rows
}

fn dated<'a>(table: &str, rows: &[(Sha1Git, Option<Date>)]) -> Command<'a> {
    let rows = sorted(rows, |row| row.0);
    let ids: Vec<Sha1Git> = rows.iter().map(|row| row.0).collect();
    let dates: Vec<Option<Date>> = rows.iter().map(|row| row.1).collect();
    Command {
        sql: format!(
            "INSERT INTO {table} AS old (sha1, date) SELECT * FROM unnest($1::bytea[], $2::timestamptz[])
ON CONFLICT (sha1) DO UPDATE SET date = EXCLUDED.date
WHERE EXCLUDED.date IS NOT NULL AND (old.date IS NULL OR EXCLUDED.date < old.date)"
        ),
        params: vec![Box::new(ids), Box::new(dates)],
        meaning: CountMeaning::Ignored,
    }
}

fn revisions<'a>(rows: &[(Sha1Git, RevisionData)]) -> Command<'a> {
    let rows = sorted(rows, |row| row.0);
    let ids: Vec<Sha1Git> = rows.iter().map(|row| row.0).collect();
    let dates: Vec<Option<Date>> = rows.iter().map(|row| row.1.date).collect();
    let origins: Vec<Option<Sha1Git>> = rows.iter().map(|row| row.1.origin).collect();
    Command {
        sql: "WITH new AS MATERIALIZED (
    SELECT n.sha1, n.date, o.id AS origin, n.origin IS NOT NULL AND o.id IS NULL AS unknown
    FROM unnest($1::bytea[], $2::timestamptz[], $3::bytea[]) AS n (sha1, date, origin)
    LEFT JOIN origin o ON o.sha1 = n.origin
), written AS (
    INSERT INTO revision AS old (sha1, date, origin) SELECT sha1, date, origin FROM new
    ON CONFLICT (sha1) DO UPDATE
    SET date = LEAST(EXCLUDED.date, old.date), origin = COALESCE(EXCLUDED.origin, old.origin)
    WHERE LEAST(EXCLUDED.date, old.date) IS DISTINCT FROM old.date
       OR COALESCE(EXCLUDED.origin, old.origin) IS DISTINCT FROM old.origin
)
SELECT count(*) FROM new WHERE unknown"
            .to_owned(),
        params: vec![Box::new(ids), Box::new(dates), Box::new(origins)],
        meaning: CountMeaning::OriginUnknown,
    }
}

fn origins(rows: &[(Sha1Git, String)]) -> [Command<'_>; 2] {
    let mut urls = HashSet::with_capacity(rows.len());
    // Of rows with the same url the first is stored, so these keep their order.
    let all_differ = rows.iter().all(|(_, url)| urls.insert(url.as_str()));
    let rows = if all_differ { sorted(rows, |row| row.0) } else { rows.iter().collect() };
    let ids: Vec<Sha1Git> = rows.iter().map(|row| row.0).collect();
    let urls: Vec<&str> = rows.iter().map(|row| row.1.as_str()).collect();
    let write = Command {
        sql: "INSERT INTO origin (sha1, url) SELECT * FROM unnest($1::bytea[], $2::text[]) ON CONFLICT DO NOTHING"
            .to_owned(),
        params: vec![Box::new(ids.clone()), Box::new(urls)],
        meaning: CountMeaning::Ignored,
    };
    // A separate statement, since it must see rows that other connections committed during the
    // first.
    let missing = Command {
        sql: "SELECT count(*) FROM unnest($1::bytea[]) AS n (sha1)
WHERE NOT EXISTS (SELECT FROM origin o WHERE o.sha1 = n.sha1)"
            .to_owned(),
        params: vec![Box::new(ids)],
        meaning: CountMeaning::UrlTaken,
    };
    [write, missing]
}

fn relations(relation: Relation, rows: &[RelationRow], flavor: Flavor) -> Command<'_> {
    let mut rows: Vec<&RelationRow> = rows.iter().collect();
    rows.sort_unstable();
    let sources: Vec<Sha1Git> = rows.iter().map(|row| row.src).collect();
    let destinations: Vec<Sha1Git> = rows.iter().map(|row| row.dst).collect();
    let mut params: Params<'_> = vec![Box::new(sources), Box::new(destinations)];
    if relation.has_path() && flavor.has_paths() {
        let paths: Vec<Option<&[u8]>> = rows.iter().map(|row| row.path.as_deref()).collect();
        params.push(Box::new(paths));
    }
    Command {
        sql: relation_sql(relation, flavor),
        params,
        meaning: CountMeaning::Registered(rows.len() as u64),
    }
}

fn relation_sql(relation: Relation, flavor: Flavor) -> String {
    let (src_table, dst_table) = (relation.source().value(), relation.destination().value());
    let with_path = relation.has_path() && flavor.has_paths();
    let (given, location, loc) = if with_path {
        (
            "unnest($1::bytea[], $2::bytea[], $3::bytea[]) AS n (src, dst, path)",
            "JOIN location l ON l.path = n.path",
            "l.id",
        )
    } else {
        ("unnest($1::bytea[], $2::bytea[]) AS n (src, dst)", "", "NULL::bigint")
    };
    let insert = insert_found(relation, flavor);
    format!(
        "WITH found AS MATERIALIZED (
    SELECT s.id AS src, d.id AS dst, {loc} AS loc
    FROM {given} JOIN {src_table} s ON s.sha1 = n.src JOIN {dst_table} d ON d.sha1 = n.dst {location}
), written AS (
    {insert}
)
SELECT count(*) FROM found"
    )
}

/// Stores the rows (src, dst, loc) of a table `found`; the schema's function uses it, too.
pub(super) fn insert_found(relation: Relation, flavor: Flavor) -> String {
    let table = relation.value();
    let (src, dst) = columns(relation);
    if is_denormalized(relation, flavor) {
        return if flavor.has_paths() { append_with_path(table, src, dst) } else { append(table, src, dst) };
    }
    if !relation.has_path() {
        return format!(
            "INSERT INTO {table} ({src}, {dst}) SELECT src, dst FROM found ON CONFLICT DO NOTHING"
        );
    }
    if flavor.has_paths() {
        return format!(
            "INSERT INTO {table} ({src}, {dst}, location) SELECT src, dst, loc FROM found ON CONFLICT DO NOTHING"
        );
    }
    format!(
        "INSERT INTO {table} ({src}, {dst}) SELECT DISTINCT src, dst FROM found
    WHERE NOT EXISTS (SELECT FROM {table} old WHERE old.{src} = found.src AND old.{dst} = found.dst)
    ORDER BY src, dst"
    )
}

/// For the denormalized flavor with paths. New pairs are appended; a row without new pairs is not updated.
fn append_with_path(table: &str, src: &str, dst: &str) -> String {
    let fresh = format!(
        "SELECT * FROM unnest(EXCLUDED.{dst}, EXCLUDED.location) AS e (dst, loc)
        EXCEPT SELECT * FROM unnest(old.{dst}, old.location) AS o (dst, loc)"
    );
    format!(
        "INSERT INTO {table} AS old ({src}, {dst}, location)
    SELECT src, array_agg(dst), array_agg(loc) FROM (SELECT DISTINCT src, dst, loc FROM found) AS n
    GROUP BY src ORDER BY src
    ON CONFLICT ({src}) DO UPDATE SET ({dst}, location) = (
        SELECT old.{dst} || array_agg(x.dst), old.location || array_agg(x.loc) FROM ({fresh}) AS x)
    WHERE EXISTS ({fresh})"
    )
}

fn append(table: &str, src: &str, dst: &str) -> String {
    let fresh = format!("SELECT unnest(EXCLUDED.{dst}) AS dst EXCEPT SELECT unnest(old.{dst})");
    format!(
        "INSERT INTO {table} AS old ({src}, {dst})
    SELECT src, array_agg(DISTINCT dst) FROM found GROUP BY src ORDER BY src
    ON CONFLICT ({src}) DO UPDATE SET {dst} = old.{dst} || (SELECT array_agg(x.dst) FROM ({fresh}) AS x)
    WHERE EXISTS ({fresh})"
    )
}
