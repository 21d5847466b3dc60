//! SQL shared by reads, writes and the schema: the layout of relations in each flavor.

use crate::flavor::Flavor;
use crate::method::Relation;

/// Columns of the source and the destination.
pub(super) fn columns(relation: Relation) -> (&'static str, &'static str) {
    match relation {
        Relation::RevisionBeforeRevision => ("prev", "next"),
        other => (other.source().value(), other.destination().value()),
    }
}

/// The table has one row for each source.
pub(super) fn is_denormalized(relation: Relation, flavor: Flavor) -> bool {
    flavor.is_denormalized() && relation.has_path()
}

/// Table expression of a relation's rows in any flavor, with the columns src, dst and loc. All are ids; loc
/// may be NULL.
pub(super) fn pairs(relation: Relation, flavor: Flavor) -> String {
    let table = relation.value();
    let (src, dst) = columns(relation);
    if is_denormalized(relation, flavor) {
        return format!(
            "(SELECT r.{src} AS src, p.dst, p.loc
              FROM {table} r, unnest(r.{dst}, r.location) AS p (dst, loc))"
        );
    }
    let location = if relation.has_path() { "location" } else { "NULL::bigint" };
    format!("(SELECT {src} AS src, {dst} AS dst, {location} AS loc FROM {table})")
}

/// Order of occurrences (CONTRACT PO10), by bytes for every collation.
const ORDER: &str = r#"ORDER BY r.date NULLS LAST, r.sha1, o.url COLLATE "C" NULLS LAST, found.path"#;

/// Query for the first occurrence of the content `$1`: content, revision, date, origin, path.
pub(super) fn find_first(flavor: Flavor) -> String {
    let pairs = pairs(Relation::ContentInRevision, flavor);
    format!(
        "SELECT $1::bytea AS content, r.sha1::bytea AS revision, r.date, o.url AS origin, found.path
FROM (SELECT p.dst AS revision, coalesce(l.path::bytea, ''::bytea) AS path
      FROM content c JOIN {pairs} p ON p.src = c.id LEFT JOIN location l ON l.id = p.loc
      WHERE c.sha1 = $1::bytea) AS found
JOIN revision r ON r.id = found.revision
LEFT JOIN origin o ON o.id = r.origin
{ORDER} LIMIT 1"
    )
}

/// Query for at most `$2` occurrences of the content `$1`, with the columns of [`find_first`].
pub(super) fn find_all(flavor: Flavor) -> String {
    let early = pairs(Relation::ContentInRevision, flavor);
    let inside = pairs(Relation::ContentInDirectory, flavor);
    let directories = pairs(Relation::DirectoryInRevision, flavor);
    format!(
        "SELECT $1::bytea AS content, r.sha1::bytea AS revision, r.date, o.url AS origin, found.path
FROM (SELECT p.dst AS revision, coalesce(l.path::bytea, ''::bytea) AS path
      FROM content c JOIN {early} p ON p.src = c.id LEFT JOIN location l ON l.id = p.loc
      WHERE c.sha1 = $1::bytea
      UNION
      SELECT d.dst, CASE WHEN coalesce(prefix.path::bytea, ''::bytea) IN (''::bytea, '.'::bytea)
                         THEN coalesce(suffix.path::bytea, ''::bytea)
                         ELSE prefix.path::bytea || '/'::bytea || suffix.path::bytea END
      FROM content c JOIN {inside} p ON p.src = c.id LEFT JOIN location suffix ON suffix.id = p.loc
      JOIN {directories} d ON d.src = p.dst LEFT JOIN location prefix ON prefix.id = d.loc
      WHERE c.sha1 = $1::bytea) AS found
JOIN revision r ON r.id = found.revision
LEFT JOIN origin o ON o.id = r.origin
{ORDER} LIMIT $2::bigint"
    )
}
