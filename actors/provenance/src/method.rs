//! Methods of the storage interface that write, and their exchanges (CONTRACT PP01, PP10).

use std::fmt;

/// Method of a message. All items of a message have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::enum_variant_names, reason = "they are the names of the methods")]
pub enum Method {
    /// Contents with their earliest dates.
    ContentAdd,
    /// Directories with their earliest dates.
    DirectoryAdd,
    /// Revisions with their dates and preferred origins.
    RevisionAdd,
    /// Origins with their urls.
    OriginAdd,
    /// Paths.
    LocationAdd,
    /// Pairs of two entities, most with a path.
    RelationAdd(Relation),
}

/// Relation between two kinds of entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// A content appears early in a revision, at a path.
    ContentInRevision,
    /// A content is in a directory, at a path.
    ContentInDirectory,
    /// A directory is in a revision, at a path.
    DirectoryInRevision,
    /// A revision was found in an origin; no path.
    RevisionInOrigin,
    /// The destination is a parent of the source; no path.
    RevisionBeforeRevision,
}

/// AMQP exchange. One worker of each range consumes all its methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exchange {
    /// Contents and their relations.
    Content,
    /// Directories and their relation.
    Directory,
    /// Revisions and their relations.
    Revision,
    /// Origins.
    Origin,
    /// Locations.
    Location,
}

impl Method {
    /// All methods, grouped by exchange.
    pub const ALL: [Self; 10] = [
        Self::ContentAdd,
        Self::RelationAdd(Relation::ContentInRevision),
        Self::RelationAdd(Relation::ContentInDirectory),
        Self::DirectoryAdd,
        Self::RelationAdd(Relation::DirectoryInRevision),
        Self::RevisionAdd,
        Self::RelationAdd(Relation::RevisionBeforeRevision),
        Self::RelationAdd(Relation::RevisionInOrigin),
        Self::OriginAdd,
        Self::LocationAdd,
    ];

    /// Name in a binding key.
    pub fn name(self) -> &'static str {
        match self {
            Self::ContentAdd => "content_add",
            Self::DirectoryAdd => "directory_add",
            Self::RevisionAdd => "revision_add",
            Self::OriginAdd => "origin_add",
            Self::LocationAdd => "location_add",
            Self::RelationAdd(_) => "relation_add",
        }
    }

    /// None for all methods but `relation_add`.
    pub fn relation(self) -> Option<Relation> {
        match self {
            Self::RelationAdd(relation) => Some(relation),
            _ => None,
        }
    }
}

impl fmt::Display for Method {
    /// Writes the first two parts of a binding key: `content_add.unknown`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.name(), self.relation().map_or("unknown", Relation::value))
    }
}

impl Relation {
    /// All relations.
    pub const ALL: [Self; 5] = [
        Self::ContentInRevision,
        Self::ContentInDirectory,
        Self::DirectoryInRevision,
        Self::RevisionInOrigin,
        Self::RevisionBeforeRevision,
    ];

    /// Value on the wire.
    pub fn value(self) -> &'static str {
        match self {
            Self::ContentInRevision => "content_in_revision",
            Self::ContentInDirectory => "content_in_directory",
            Self::DirectoryInRevision => "directory_in_revision",
            Self::RevisionInOrigin => "revision_in_origin",
            Self::RevisionBeforeRevision => "revision_before_revision",
        }
    }

    /// Returns the kind of the source.
    pub fn source(self) -> Entity {
        match self {
            Self::ContentInRevision | Self::ContentInDirectory => Entity::Content,
            Self::DirectoryInRevision => Entity::Directory,
            Self::RevisionInOrigin | Self::RevisionBeforeRevision => Entity::Revision,
        }
    }

    /// Returns the kind of the destination.
    pub fn destination(self) -> Entity {
        match self {
            Self::ContentInDirectory => Entity::Directory,
            Self::ContentInRevision | Self::DirectoryInRevision | Self::RevisionBeforeRevision => {
                Entity::Revision
            }
            Self::RevisionInOrigin => Entity::Origin,
        }
    }

    /// Relations of revisions have no paths.
    pub fn has_path(self) -> bool {
        self.source() != Entity::Revision
    }
}

/// Kind of entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entity {
    /// A file's bytes.
    Content,
    /// A directory.
    Directory,
    /// A revision.
    Revision,
    /// Place where software is published.
    Origin,
}

impl Entity {
    pub const ALL: [Self; 4] = [Self::Content, Self::Directory, Self::Revision, Self::Origin];

    /// Value on the wire, which is also the table and the collection.
    pub fn value(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Directory => "directory",
            Self::Revision => "revision",
            Self::Origin => "origin",
        }
    }
}

impl Exchange {
    /// All exchanges, in the order of the pool.
    pub const ALL: [Self; 5] = [Self::Content, Self::Directory, Self::Revision, Self::Origin, Self::Location];

    /// Name on the broker.
    pub fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Directory => "directory",
            Self::Revision => "revision",
            Self::Origin => "origin",
            Self::Location => "location",
        }
    }
}
