//! The tables, whose file it is, and of which version.

use rusqlite::Connection;

/// The newest version of the layout known here, kept in `user_version`.
pub(super) const VERSION: i64 = 1;

/// "orpv": tells a file of ours from one of another program, kept in `application_id`.
const APPLICATION: i64 = 0x6f72_7076;

/// Ids stay within the file. No foreign keys: rows are never deleted, and a relation is written with ids that were looked
/// up in the same transaction.
///
/// The key of a relation serves questions by source, the index over `dst` (to which SQLite adds the key) those by
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

/// Who made a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is empty.
    Nobody,
    /// A store of ours.
    Us { version: i64 },
    /// Another program.
    Other,
}

/// Reads the header only, and the list of tables of a file without mark.
pub(super) fn owner(conn: &Connection) -> rusqlite::Result<Owner> {
    let number = |sql| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
    let version = number("PRAGMA user_version")?;
    match number("PRAGMA application_id")? {
        APPLICATION => Ok(Owner::Us { version }),
        0 if version == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 => Ok(Owner::Nobody),
        _ => Ok(Owner::Other),
    }
}

/// Makes the tables of an empty file; the caller holds a write transaction and commits it.
pub(super) fn create(conn: &Connection) -> rusqlite::Result<()> {
    if owner(conn)? == Owner::Nobody {
        conn.execute_batch(TABLES)?;
        conn.pragma_update(None, "application_id", APPLICATION)?;
        conn.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(())
}
