//! Store in PostgreSQL (CONTRACT PD06 to PD09): the original's tables in all flavors, written by
//! one statement a group.
//!
//! The rows of a group are passed as arrays. All groups share one transaction and, with prepared
//! statements, one round trip.

mod layout;
mod pages;
mod read;
mod schema;
mod session;
mod types;
mod write;

use std::fmt;

use orchestrator_edge::postgres::Session;

pub use schema::init;
pub(crate) use session::APPLICATION;

pub use crate::flavor::Flavor;

use crate::{
    method::{Exchange, Relation},
    row::Rows,
    store::{OmittedRows, Query, QueryResult, Store, StoreError, StoreReader},
};

/// Connection to a provenance database. It makes progress only while a call is awaited; dropping it
/// closes it.
///
/// Drop it after an abandoned call, whose locks the server would otherwise keep until the next
/// call.
pub struct PostgresStore {
    session: Session,
    flavor: Flavor,
}

impl PostgresStore {
    /// Connects within 10 s to a database of schema version 1. `dsn` is an address in libpq's
    /// format: a URL (`postgresql://user@host/name`) or keywords (`host=.. dbname=..`).
    ///
    /// # Errors
    /// [`StoreError::Refused`] if `dsn` is invalid or the database has another schema version;
    /// [`StoreError::Unavailable`] if it cannot be reached or has no tables.
    pub async fn connect(dsn: &str) -> Result<Self, StoreError> {
        let mut session = session::open(dsn).await?;
        match schema::flavor_of(&mut session).await? {
            Some(flavor) => Ok(Self { session, flavor }),
            None => Err(StoreError::unavailable(
                "the database holds no provenance tables: create them".to_owned(),
            )),
        }
    }

    /// Writes no row into each table: waits for the locks that a write takes, and fails where one would.
    pub(super) async fn check_writes(&mut self) -> Result<(), StoreError> {
        let tables = Exchange::ALL.map(Exchange::name).into_iter().chain(Relation::ALL.map(Relation::value));
        let sql = tables.map(|table| format!("INSERT INTO {table} SELECT * FROM {table} WHERE false;"));
        Ok(self.session.batch("checking that rows can be written", &sql.collect::<String>()).await?)
    }

    /// Returns the schema flavor of the database.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("flavor", &self.flavor).finish_non_exhaustive()
    }
}

impl StoreReader for PostgresStore {
    async fn read(&mut self, query: &Query) -> Result<QueryResult, StoreError> {
        match query {
            Query::Page { listing, after, limit } => {
                pages::page(&mut self.session, self.flavor, *listing, after.as_ref(), *limit)
                    .await
                    .map(QueryResult::Page)
            }
            query => read::answer(&mut self.session, self.flavor, query).await,
        }
    }
}

impl Store for PostgresStore {
    async fn write(&mut self, groups: &[Rows]) -> Result<OmittedRows, StoreError> {
        let mut omitted = OmittedRows::default();
        let commands = write::commands(groups, self.flavor)?;
        if commands.is_empty() {
            return Ok(omitted);
        }
        let (meanings, commands): (Vec<_>, Vec<_>) = commands
            .into_iter()
            .map(|command| (command.meaning, (command.sql.into(), command.params)))
            .unzip();
        let opening = write::opening(groups, self.flavor);
        let answers = self.session.transaction("writing rows", &opening, commands).await?;
        for (meaning, rows) in meanings.into_iter().zip(answers) {
            let count = rows.first().map(|row| read::get(row, 0)).transpose()?;
            meaning.count(count.unwrap_or_default(), &mut omitted);
        }
        Ok(omitted)
    }
}
