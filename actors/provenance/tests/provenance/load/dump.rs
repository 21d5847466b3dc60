//! What a store holds, as its own database tells it: plain SQL and text, so that our reader and our writer cannot hide each
//! other's mistakes.

use std::{fmt::Debug, path::Path};

use orchestrator_harness::Postgres;
use orchestrator_provenance::{edge::postgres::Flavor, method::Relation};

use super::expected::{Held, Id, Triple};

/// Columns of a line, in hex but for numbers; an empty column is NULL, an empty value is a dot.
type Line<'a> = Vec<&'a str>;

/// Asks psql.
pub(crate) fn postgres(server: &Postgres, dsn: &str, flavor: Flavor) -> Held {
    let micros = "(extract(epoch FROM e.date) * 1000000)::bigint";
    let hex = |column: &str| format!("'.' || encode({column}, 'hex')");
    let (sha1, url, path) = (hex("e.sha1"), hex("convert_to(e.url, 'UTF8')"), hex("e.path"));
    let relation = |relation: Relation| {
        let (src, dst, has_path) = ends(relation);
        let table = relation.value();
        let (src_column, dst_column) = if src == dst { ("prev", "next") } else { (src, dst) };
        let columns = format!("{}, {}, {}", hex("s.sha1"), hex("d.sha1"), hex("l.path"));
        let pairs = match (has_path, flavor) {
            (false, _) => format!("SELECT {src_column}, {dst_column}, NULL::bigint FROM {table}"),
            (true, Flavor::WithPath | Flavor::WithoutPath) => {
                format!("SELECT {src_column}, {dst_column}, location FROM {table}")
            }
            (true, Flavor::WithPathDenormalized) => {
                format!("SELECT {src_column}, unnest({dst_column}), unnest(location) FROM {table}")
            }
            (true, Flavor::WithoutPathDenormalized) => {
                format!("SELECT {src_column}, unnest({dst_column}), unnest(location) FROM {table}")
            }
        };
        format!(
            "SELECT {columns} FROM ({pairs}) AS p (src, dst, loc) LEFT JOIN {src} s ON s.id = p.src
             LEFT JOIN {dst} d ON d.id = p.dst LEFT JOIN location l ON l.id = p.loc"
        )
    };
    let tables = Tables {
        dated: |table: &str| format!("SELECT {sha1}, {micros} FROM {table} e"),
        revisions: format!(
            "SELECT {sha1}, {micros}, CASE WHEN e.origin IS NULL THEN NULL ELSE {} END
             FROM revision e LEFT JOIN origin o ON o.id = e.origin",
            hex("coalesce(o.sha1::bytea, ''::bytea)")
        ),
        origins: format!("SELECT {sha1}, {url} FROM origin e"),
        locations: format!("SELECT {path} FROM location e"),
        relation,
    };
    tables.read(|sql| server.script(dsn, sql))
}

/// Asks the file.
pub(crate) fn sqlite(file: &Path) -> Held {
    let conn = rusqlite::Connection::open(file).expect("the file");
    let hex = |column: &str| format!("'.' || lower(hex({column}))");
    let (sha1, url, path) = (hex("e.sha1"), hex("e.url"), hex("e.path"));
    let relation = |relation: Relation| {
        let (src, dst, has_path) = ends(relation);
        let location = if has_path { "p.location" } else { "NULL" };
        // hex(NULL) is a text without digits.
        format!(
            "SELECT {}, {}, CASE WHEN {location} IS NULL THEN NULL ELSE {} END FROM {} p LEFT JOIN {src} s ON s.id = p.src
             LEFT JOIN {dst} d ON d.id = p.dst LEFT JOIN location l ON l.id = {location}",
            hex("s.sha1"), hex("d.sha1"), hex("l.path"), relation.value()
        )
    };
    let tables = Tables {
        dated: |table: &str| format!("SELECT {sha1}, e.date FROM {table} e"),
        revisions: format!(
            "SELECT {sha1}, e.date, CASE WHEN e.origin IS NULL THEN NULL ELSE {} END
             FROM revision e LEFT JOIN origin o ON o.id = e.origin",
            hex("o.sha1")
        ),
        origins: format!("SELECT {sha1}, {url} FROM origin e"),
        locations: format!("SELECT {path} FROM location e"),
        relation,
    };
    tables.read(|sql| {
        let mut statement = conn.prepare(sql).expect("a statement");
        let columns = statement.column_count();
        let text = |row: &rusqlite::Row<'_>| -> rusqlite::Result<String> {
            use rusqlite::types::ValueRef;
            let cell = |column| {
                Ok(match row.get_ref(column)? {
                    ValueRef::Null => String::new(),
                    ValueRef::Integer(number) => number.to_string(),
                    other => other.as_str()?.to_owned(),
                })
            };
            Ok((0..columns).map(cell).collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
        };
        let rows = statement.query_map([], text).expect("rows");
        rows.collect::<rusqlite::Result<Vec<_>>>().expect("rows").join("\n")
    })
}

/// Tables of source and destination, and whether there are paths.
fn ends(relation: Relation) -> (&'static str, &'static str, bool) {
    match relation {
        Relation::ContentInRevision => ("content", "revision", true),
        Relation::ContentInDirectory => ("content", "directory", true),
        Relation::DirectoryInRevision => ("directory", "revision", true),
        Relation::RevisionInOrigin => ("revision", "origin", false),
        Relation::RevisionBeforeRevision => ("revision", "revision", false),
    }
}

/// The queries of a kind of database.
struct Tables<D, R> {
    dated: D,
    revisions: String,
    origins: String,
    locations: String,
    relation: R,
}

impl<D: Fn(&str) -> String, R: Fn(Relation) -> String> Tables<D, R> {
    fn read(&self, query: impl Fn(&str) -> String) -> Held {
        let dated = |table| distinct(&query(&(self.dated)(table)), |line| (id(line[0]), number(line[1])));
        let triple = |line: Line<'_>| -> Triple { (id(line[0]), id(line[1]), bytes(line[2])) };
        Held {
            contents: dated("content"),
            directories: dated("directory"),
            revisions: distinct(&query(&self.revisions), |line| {
                (id(line[0]), (number(line[1]), bytes(line[2]).map(|_| id(line[2]))))
            }),
            origins: distinct(&query(&self.origins), |line| {
                let url = bytes(line[1]).expect("a url");
                (id(line[0]), String::from_utf8(url).expect("UTF-8"))
            }),
            locations: distinct(&query(&self.locations), |line| bytes(line[0]).expect("a path")),
            relations: Relation::ALL
                .into_iter()
                .map(|relation| (relation, distinct(&query(&(self.relation)(relation)), triple)))
                .collect(),
        }
    }
}

/// All lines; none may say what another says.
fn distinct<T: Debug, C: FromIterator<T>>(text: &str, read: impl Fn(Line<'_>) -> T) -> C
where
    for<'a> &'a C: IntoIterator,
{
    let rows: Vec<T> = text.lines().map(|line| read(line.split('|').collect())).collect();
    let count = rows.len();
    let table: C = rows.into_iter().collect();
    assert_eq!((&table).into_iter().count(), count, "a row is stored twice");
    table
}

fn bytes(column: &str) -> Option<Vec<u8>> {
    let hex = column.strip_prefix('.')?;
    let pairs = (0..hex.len()).step_by(2);
    Some(pairs.map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits")).collect())
}

fn id(column: &str) -> Id {
    let bytes = bytes(column).expect("an end that dangles");
    bytes.try_into().expect("20 bytes")
}

fn number(column: &str) -> Option<i64> {
    (!column.is_empty()).then(|| column.parse().expect("a number"))
}
