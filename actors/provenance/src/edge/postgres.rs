//! The store in PostgreSQL (CONTRACT PD06 to PD09): the original's tables in all its flavors, written by one statement a group.
//!
//! Each group of rows travels as arrays in one statement; all groups share a transaction and, once their statements are
//! prepared, one round trip.

mod address;
mod dial;
mod error;
mod layout;
mod limits;
mod read;
mod schema;
mod session;
mod types;
mod write;

use std::fmt;

pub(crate) use address::Address;
pub use schema::init;

pub use crate::flavor::Flavor;

use crate::{
    row::Rows,
    store::{Ask, Found, Question, Store, StoreError, Written},
};
use session::Session;

/// A connection to a provenance database. It works while a call waits for it and not in between; dropping it ends it.
///
/// Drop it with a call that is given up: the server would keep the locks of that call until the next one goes on with it.
pub struct PostgresStore {
    session: Session,
    flavor: Flavor,
}

impl PostgresStore {
    /// Connects, within 10 s, to a database of schema version 1. `dsn` is an address as libpq takes it: a URL
    /// (`postgresql://user@host/name`) or words (`host=.. dbname=..`).
    ///
    /// # Errors
    /// [`StoreError::Refused`] if `dsn` is no address or the database has another schema version; [`StoreError::Away`] if it
    /// cannot be reached or has no tables yet.
    pub async fn connect(dsn: &str) -> Result<Self, StoreError> {
        let mut session = Session::open(dsn).await?;
        match schema::flavor_of(&mut session).await? {
            Some(flavor) => Ok(Self { session, flavor }),
            None => Err(StoreError::Away("the database holds no provenance tables: create them".to_owned())),
        }
    }

    /// How the database keeps its relations.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Has the connection ended? Then every call fails: connect again. What breaks between two calls shows in the second.
    pub fn is_closed(&self) -> bool {
        self.session.is_closed()
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("flavor", &self.flavor)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl Ask for PostgresStore {
    async fn read(&mut self, question: &Question) -> Result<Found, StoreError> {
        read::answer(&mut self.session, self.flavor, question).await
    }
}

impl Store for PostgresStore {
    async fn write(&mut self, groups: &[Rows]) -> Result<Written, StoreError> {
        let mut written = Written::default();
        let commands = write::commands(groups, self.flavor)?;
        if commands.is_empty() {
            return Ok(written);
        }
        let (tallies, commands): (Vec<_>, Vec<_>) =
            commands.into_iter().map(|command| (command.tally, (command.sql, command.params))).unzip();
        let opening = write::opening(groups, self.flavor);
        let figures = self.session.transaction("writing rows", &opening, commands).await?;
        for (tally, figure) in tallies.into_iter().zip(figures) {
            tally.count(figure.unwrap_or_default(), &mut written);
        }
        Ok(written)
    }
}
