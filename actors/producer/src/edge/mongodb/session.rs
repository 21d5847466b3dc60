//! Client of one database, with a time-out for each request (CONTRACT SE06).

use std::time::Duration;

use ::mongodb::{
    Collection, Database, IndexModel,
    bson::{Bson, Document, RawDocument, RawDocumentBuf, doc},
    error::{Error, ErrorKind},
    options::{Acknowledgment, WriteConcern},
};
use orchestrator_edge::mongodb;
use orchestrator_supervise::sanitize;
use parking_lot::Mutex;

use super::{
    decode::decoded,
    error::{NO_COLLECTION, code, explain},
};
use crate::store::StoreError;

/// Write concern time-out.
const WRITE_CONCERN_TIMEOUT: Duration = Duration::from_secs(20);
/// Time-out of a command, longer than that of the write concern.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Time-out of a count or a page, which is a full collection scan without an index.
const SCAN_TIMEOUT: Duration = Duration::from_secs(600);
/// Time-out of creating an index.
const INDEX_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

#[derive(Debug)]
pub(super) struct Session {
    uri: String,
    name: String,
    /// `None` after a broken connection: the driver's other pooled connections may be broken, too.
    client: Mutex<Option<Database>>,
}

async fn client(uri: &str, name: &str) -> Result<Database, StoreError> {
    let concern =
        WriteConcern::builder().w(Acknowledgment::Majority).journal(true).w_timeout(WRITE_CONCERN_TIMEOUT);
    let database = mongodb::open(uri, name, "orchestrator producer", Some(concern.build())).await;
    database.map_err(StoreError::Unavailable)
}

impl Session {
    pub(super) async fn open(uri: &str, name: &str) -> Result<Self, StoreError> {
        let client = Mutex::new(Some(client(uri, name).await?));
        Ok(Self { uri: uri.to_owned(), name: name.to_owned(), client })
    }

    /// Returns the client, a new one after a broken connection.
    async fn database(&self) -> Result<Database, StoreError> {
        let current = self.client.lock().clone();
        if let Some(database) = current {
            return Ok(database);
        }
        let database = client(&self.uri, &self.name).await?;
        *self.client.lock() = Some(database.clone());
        Ok(database)
    }

    /// Translates an error of `action`. Unless the server refused the command, the client is replaced.
    fn failed(&self, action: &str, error: &Error) -> StoreError {
        if !matches!(*error.kind, ErrorKind::Command(_) | ErrorKind::Write(_)) {
            self.disconnect();
        }
        explain(action, error)
    }

    fn disconnect(&self) {
        *self.client.lock() = None;
    }

    async fn with_timeout<T>(
        &self,
        action: &str,
        span: Duration,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        self.timed(action, span, future).await?.map_err(|error| self.failed(action, &error))
    }

    async fn timed<T>(
        &self,
        action: &str,
        span: Duration,
        answer: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        let answer = mongodb::with_timeout(action, span, answer).await;
        answer.map_err(|reason| {
            self.disconnect();
            StoreError::Unavailable(reason)
        })
    }

    /// Returns the server's clock, in milliseconds since 1970.
    pub(super) async fn clock_ms(&self) -> Result<i64, StoreError> {
        const ACTION: &str = "reading its clock";
        let database = self.database().await?;
        let hello = database.run_command(doc! { "hello": 1 }).into_future();
        let said = self.with_timeout(ACTION, COMMAND_TIMEOUT, hello).await?;
        match said.get("localTime") {
            Some(Bson::DateTime(time)) => Ok(time.timestamp_millis()),
            other => Err(StoreError::Unavailable(format!(
                "the reply to hello has no localTime but {other:?}: is this MongoDB?"
            ))),
        }
    }

    /// Returns `fields` of the document at position `skip` that matches `filter`.
    pub(super) async fn find_one(
        &self,
        action: &str,
        collection: &str,
        filter: Document,
        fields: Document,
        order: Option<Document>,
        skip: u64,
    ) -> Result<Option<Document>, StoreError> {
        let collection = self.database().await?.collection::<RawDocumentBuf>(collection);
        let mut find = collection.find_one(filter).projection(fields);
        if let Some(order) = order {
            find = find.sort(order);
        }
        if skip > 0 {
            find = find.skip(skip);
        }
        let found = self.with_timeout(action, SCAN_TIMEOUT, find.into_future()).await?;
        let decoded = found.map(|raw| decoded(&raw)).transpose();
        decoded.map_err(|reason| {
            StoreError::Unavailable(format!("{action}: the document is {}", sanitize(reason)))
        })
    }

    /// Calls `each` with the documents that match `filter`.
    pub(super) async fn find(
        &self,
        collection: &str,
        filter: Document,
        order: Document,
        mut each: impl FnMut(&RawDocument),
    ) -> Result<(), StoreError> {
        const ACTION: &str = "reading stencils";
        let collection = self.collection(collection).await?;
        let fields = doc! { "TCN": 1, "rootstock_tcn": 1, "scion_tcn": 1, "state": 1, "orchestrator": 1 };
        let find = collection.find(filter).sort(order).projection(fields).into_future();
        let mut cursor = self.with_timeout(ACTION, COMMAND_TIMEOUT, find).await?;
        while self.with_timeout(ACTION, COMMAND_TIMEOUT, cursor.advance()).await? {
            each(cursor.current());
        }
        Ok(())
    }

    /// Counts the documents that match `filter`.
    pub(super) async fn count(
        &self,
        action: &str,
        collection: &str,
        filter: Document,
    ) -> Result<u64, StoreError> {
        let collection = self.collection(collection).await?;
        self.with_timeout(action, SCAN_TIMEOUT, collection.count_documents(filter).into_future()).await
    }

    /// Sets `fields` of the document that matches `filter`. Returns whether there is one.
    pub(super) async fn set(
        &self,
        action: &str,
        collection: &str,
        filter: Document,
        fields: Document,
    ) -> Result<bool, StoreError> {
        self.update(action, collection, filter, doc! { "$set": fields }).await
    }

    /// Applies `change` to the document that matches `filter`. Returns whether there is one.
    pub(super) async fn update(
        &self,
        action: &str,
        collection: &str,
        filter: Document,
        change: Document,
    ) -> Result<bool, StoreError> {
        let collection = self.collection(collection).await?;
        let update = collection.update_one(filter, change);
        Ok(self.with_timeout(action, COMMAND_TIMEOUT, update.into_future()).await?.matched_count > 0)
    }

    /// Returns the keys of all indexes.
    pub(super) async fn index_keys(&self, collection: &str) -> Result<Vec<Document>, StoreError> {
        const ACTION: &str = "reading indexes";
        let failed = |error: Error| match code(&error) {
            Some(NO_COLLECTION) => Ok(Vec::new()),
            _ => Err(self.failed(ACTION, &error)),
        };
        let collection = self.collection(collection).await?;
        let listing = collection.list_indexes().into_future();
        let mut cursor = match self.timed(ACTION, COMMAND_TIMEOUT, listing).await? {
            Ok(cursor) => cursor,
            Err(error) => return failed(error),
        };
        let mut keys = Vec::new();
        while self.with_timeout(ACTION, COMMAND_TIMEOUT, cursor.advance()).await? {
            let index: IndexModel =
                cursor.deserialize_current().map_err(|error| self.failed(ACTION, &error))?;
            keys.push(index.keys);
        }
        Ok(keys)
    }

    /// Creates an index.
    pub(super) async fn create_index(&self, collection: &str, keys: Document) -> Result<(), StoreError> {
        let model = IndexModel::builder().keys(keys).build();
        let collection = self.collection(collection).await?;
        let creation = collection.create_index(model).into_future();
        self.with_timeout("creating indexes", INDEX_TIMEOUT, creation).await.map(drop)
    }

    async fn collection(&self, name: &str) -> Result<Collection<Document>, StoreError> {
        Ok(self.database().await?.collection(name))
    }
}
