//! The store in MongoDB (CONTRACT PD10 to PD14): the original's documents, changed by operators that are atomic in each of them.
//!
//! There are no transactions over documents here (a single server has none): a write that is cut short may have been done in
//! part. Every operator of it says the same again when it is repeated, entities are written before the relations that
//! name them, and nothing is answered before all of it is journaled on a majority of the servers, so nobody can tell.
//!
//! The layout has no place for some of what the other stores keep: locations (every path of a relation is registered), unique
//! urls, microseconds of dates beyond 2^33 s from 1970, since dates are doubles.

mod error;
mod layout;
mod lookup;
mod occurrences;
mod read;
mod session;
mod update;
mod write;

use crate::{
    method::Entity,
    row::Rows,
    store::{Ask, Found, Question, Store, StoreError, Written, check},
};
use session::Session;

/// A client of a provenance database; its background tasks end when it is dropped.
#[derive(Debug)]
pub struct MongoStore {
    session: Session,
    /// Were the indexes looked after? Only who writes needs them.
    indexed: bool,
}

impl MongoStore {
    /// Connects, within 5 s or what `uri` says, to the database `name`. `uri` is an address as all drivers take it:
    /// `mongodb://host:27017/?replicaSet=rs0`. The concerns and preferences in it do not count: what is written is journaled on
    /// a majority, and read from the primary.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if `uri` is no address; [`StoreError::Away`] if no primary can be reached.
    pub async fn connect(uri: &str, name: &str) -> Result<Self, StoreError> {
        Ok(Self { session: Session::open(uri, name).await?, indexed: false })
    }

    /// Two writers that insert the same document at once would make twins: unique indexes keep them from it. The original has
    /// none; its programs do not mind them. A database that holds twins already gets none, and is used as it is.
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

impl Ask for MongoStore {
    async fn read(&mut self, question: &Question) -> Result<Found, StoreError> {
        read::answer(&self.session, question).await
    }
}

impl Store for MongoStore {
    /// What is refused for its own sake is refused before anything is written. A document that would grow beyond what the server
    /// takes shows only then: other rows of `groups` may be stored already.
    async fn write(&mut self, groups: &[Rows]) -> Result<Written, StoreError> {
        groups.iter().try_for_each(check)?;
        let mut written = Written::default();
        for rows in groups.iter().filter(|rows| !rows.is_empty()) {
            if !self.indexed {
                self.index().await?;
            }
            write::group(&self.session, rows, &mut written).await?;
        }
        Ok(written)
    }
}
