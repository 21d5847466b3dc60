//! Store in MongoDB (CONTRACT PD10 to PD14): the original's documents, changed by atomic operators.
//!
//! There are no transactions over documents, so an interrupted write may be done in part. Each
//! operator can be repeated without effect, and entities are written before the relations that
//! refer to them. Nothing is acknowledged before a majority has it in the journal.
//!
//! The layout lacks some data of the other stores. It has no locations (every path of a relation
//! counts as registered) and no unique urls. Dates are doubles, so beyond 2^33 s from 1970 they
//! lose microseconds.

mod error;
mod layout;
mod lookup;
mod occurrences;
mod pages;
mod read;
mod session;
mod update;
mod write;

use crate::{
    method::Entity,
    row::Rows,
    store::{OmittedRows, Query, QueryResult, Store, StoreError, StoreReader, check},
};
use session::Session;

/// Client of a provenance database; its background tasks end when it is dropped.
#[derive(Debug)]
pub(crate) struct MongoStore {
    session: Session,
    /// True once the indexes were created; only writers need them.
    indexed: bool,
}

impl MongoStore {
    /// Connects to the database `name` within 5 s, or the time-out in `uri`, which has the drivers'
    /// usual form: `mongodb://host:27017/?replicaSet=rs0`. Read and write concerns in it are
    /// ignored: writes are journaled on a majority, and reads use the primary.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if `uri` is invalid; [`StoreError::Unavailable`] if no primary can
    /// be reached.
    pub(crate) async fn connect(uri: &str, name: &str) -> Result<Self, StoreError> {
        Ok(Self { session: Session::open(uri, name).await?, indexed: false })
    }

    /// Creates unique indexes, so that two writers cannot insert the same identifier twice. A
    /// database that already holds duplicates gets none and is used as it is (CONTRACT PD13).
    async fn index(&mut self) -> Result<(), StoreError> {
        for entity in Entity::ALL {
            if let Some(reason) = self.session.index(entity).await? {
                tracing::warn!(
                    "collection {}: no unique index on sha1, so two writers at once may store an identifier twice: {reason}",
                    entity.value()
                );
            }
        }
        self.indexed = true;
        Ok(())
    }
}

impl StoreReader for MongoStore {
    async fn read(&mut self, query: &Query) -> Result<QueryResult, StoreError> {
        read::answer(&self.session, query).await
    }
}

impl Store for MongoStore {
    /// Rows that [`check`] refuses are refused before anything is written. A document that would
    /// exceed 16 MiB fails only at the server; other rows of `groups` may then be stored.
    async fn write(&mut self, groups: &[Rows]) -> Result<OmittedRows, StoreError> {
        groups.iter().try_for_each(check)?;
        let mut omitted = OmittedRows::default();
        for rows in groups.iter().filter(|rows| !rows.is_empty()) {
            if !self.indexed {
                self.index().await?;
            }
            write::group(&self.session, rows, &mut omitted).await?;
        }
        Ok(omitted)
    }
}
