//! What the rules need of a catalog's server: a trait, so that they are tried on more answers than a server gives in time.

use bytes::Bytes;

use crate::lane::Turn;

/// A question (CONTRACT CP01, CP05). The path is what follows the catalog's base, e.g. `/entity/Foo/state=actionable?limit=5`, and is sent
/// byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get {
    /// The path.
    pub path: String,
    /// The ETag of the answer that is at hand: a server that has nothing newer says so, without a body.
    pub if_none_match: Option<String>,
}

/// A write (CONTRACT CP04): rows as a JSON array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The path.
    pub path: String,
    /// The ETag of the answer that this write rests on: nothing is written if anything in the catalog has changed since.
    pub if_match: Option<String>,
    /// The body.
    pub body: Bytes,
}

/// An answer that is none of [`Trouble`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// 304: what is at hand is still so; with its ETag.
    Unchanged {
        /// The ETag, as the server wrote it.
        etag: Option<String>,
    },
    /// 200 and its like.
    Rows {
        /// The ETag, as the server wrote it, quotes included.
        etag: Option<String>,
        /// The body.
        body: Bytes,
    },
}

/// Why there is no answer, or a write was not done, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// 412: something in the catalog has changed since. Nothing was written.
    #[error("something in the catalog has changed meanwhile")]
    Concurrent,
    /// The request was not carried out, and may be later: no connection, 503, 429. Says what to do.
    #[error("{0}")]
    Away(String),
    /// It may have been carried out, or may yet be: the answer was lost, did not come in time, or was a 5xx.
    #[error("{0}")]
    Unsettled(String),
    /// The request itself is wrong, and will be the next time: 400, 405, 409, 415. Nothing was written.
    #[error("{0}")]
    Refused(String),
    /// There is no such catalog, table or row: 404. Nothing was written; it may come.
    #[error("{0}")]
    Missing(String),
    /// 401 or 403, also with fresh credentials. Nothing was written.
    #[error("{0}")]
    Denied(String),
    /// 413: more rows than the server takes at once. Nothing was written.
    #[error("the server does not take so much at once")]
    TooLarge,
}

/// A catalog. Aborted transactions (503 `Transaction aborted.`) have been tried again, and credentials renewed once, before a call
/// returns. At most one write is under way, whoever asks.
pub trait Service {
    /// Reads.
    fn get(&self, get: Get) -> impl Future<Output = Result<Reply, Trouble>>;

    /// Writes, when it is its turn.
    fn put(&self, put: Put, turn: Turn) -> impl Future<Output = Result<Reply, Trouble>>;
}
