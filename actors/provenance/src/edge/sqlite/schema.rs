//! Tables, owner and version of a file.

use rusqlite::Connection;

/// Newest known version of the layout, stored in `user_version`.
pub(super) const VERSION: i64 = 1;

/// "orpv": marks a provenance store, stored in `application_id`.
const APPLICATION: i64 = 0x6f72_7076;

/// Ids are internal to the file. There are no foreign keys: rows are never deleted, and a relation
/// is written with ids looked up in the same transaction.
///
/// The primary key of a relation serves lookups by source, the index over `dst` those by
/// destination.
const TABLES: &str = "
CREATE TABLE content (
    id integer PRIMARY KEY,
    sha1 blob NOT NULL UNIQUE CHECK (length(sha1) = 20),
    date integer
) STRICT;
CREATE TABLE directory (
    id integer PRIMARY KEY,
    sha1 blob NOT NULL UNIQUE CHECK (length(sha1) = 20),
    date integer
) STRICT;
CREATE TABLE revision (
    id integer PRIMARY KEY,
    sha1 blob NOT NULL UNIQUE CHECK (length(sha1) = 20),
    date integer,
    origin integer
) STRICT;
CREATE TABLE origin (
    id integer PRIMARY KEY,
    sha1 blob NOT NULL UNIQUE CHECK (length(sha1) = 20),
    url text NOT NULL UNIQUE
) STRICT;
CREATE TABLE location (
    id integer PRIMARY KEY,
    path blob NOT NULL UNIQUE
) STRICT;
CREATE TABLE content_in_revision (
    src integer NOT NULL,
    dst integer NOT NULL,
    location integer NOT NULL,
    PRIMARY KEY (src, dst, location)
) STRICT, WITHOUT ROWID;
CREATE TABLE content_in_directory (
    src integer NOT NULL,
    dst integer NOT NULL,
    location integer NOT NULL,
    PRIMARY KEY (src, dst, location)
) STRICT, WITHOUT ROWID;
CREATE TABLE directory_in_revision (
    src integer NOT NULL,
    dst integer NOT NULL,
    location integer NOT NULL,
    PRIMARY KEY (src, dst, location)
) STRICT, WITHOUT ROWID;
CREATE TABLE revision_in_origin (
    src integer NOT NULL,
    dst integer NOT NULL,
    PRIMARY KEY (src, dst)
) STRICT, WITHOUT ROWID;
CREATE TABLE revision_before_revision (
    src integer NOT NULL,
    dst integer NOT NULL,
    PRIMARY KEY (src, dst)
) STRICT, WITHOUT ROWID;
CREATE INDEX content_in_revision_dst ON content_in_revision (dst);
CREATE INDEX content_in_directory_dst ON content_in_directory (dst);
CREATE INDEX directory_in_revision_dst ON directory_in_revision (dst);
CREATE INDEX revision_in_origin_dst ON revision_in_origin (dst);
CREATE INDEX revision_before_revision_dst ON revision_before_revision (dst);";

/// Program that created a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileOwner {
    /// None: the file is empty.
    Empty,
    /// A provenance store.
    Provenance { version: i64 },
    /// Another program.
    Foreign,
}

/// Reads only the header, and the list of tables of an unmarked file.
pub(super) fn owner(conn: &Connection) -> rusqlite::Result<FileOwner> {
    let number = |sql| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
    let version = number("PRAGMA user_version")?;
    match number("PRAGMA application_id")? {
        APPLICATION => Ok(FileOwner::Provenance { version }),
        0 if version == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 => Ok(FileOwner::Empty),
        _ => Ok(FileOwner::Foreign),
    }
}

/// Creates the tables in an empty file; the caller holds a write transaction and commits it.
pub(super) fn create(conn: &Connection) -> rusqlite::Result<()> {
    if owner(conn)? == FileOwner::Empty {
        conn.execute_batch(TABLES)?;
        conn.pragma_update(None, "application_id", APPLICATION)?;
        conn.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(())
}
