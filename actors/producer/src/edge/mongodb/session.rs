//! A client of one database, and the patience with which it is asked.

use std::time::Duration;

use ::mongodb::{
    Collection, Database, IndexModel,
    bson::{Bson, Document, RawDocument, RawDocumentBuf, doc},
    error::Error,
    options::{Acknowledgment, WriteConcern},
};
use orchestrator_edge::mongodb;
use orchestrator_supervise::sanitize;

use super::{
    decode::decoded,
    error::{NO_COLLECTION, code, explain},
};
use crate::store::StoreError;

/// How long the majority may take; then it is tried again.
const MAJORITY: Duration = Duration::from_secs(20);
/// How long a command may take: longer than the server waits for its majority.
const COMMAND: Duration = Duration::from_secs(60);
/// How long a count or a page may take: without a fitting index it is a walk over all tangles.
const WALK: Duration = Duration::from_secs(600);
/// How long an index may take in a collection that has grown without.
const INDEX: Duration = Duration::from_secs(24 * 3_600);

#[derive(Debug)]
pub(super) struct Session {
    database: Database,
}

impl Session {
    pub(super) async fn open(uri: &str, name: &str) -> Result<Self, StoreError> {
        let concern = WriteConcern::builder().w(Acknowledgment::Majority).journal(true).w_timeout(MAJORITY);
        let database = mongodb::open(uri, name, "orchestrator producer", Some(concern.build())).await;
        Ok(Self { database: database.map_err(StoreError::Away)? })
    }

    /// The server's clock, milliseconds since 1970.
    pub(super) async fn clock_ms(&self) -> Result<i64, StoreError> {
        const ACTION: &str = "reading its clock";
        let said =
            in_time(ACTION, COMMAND, self.database.run_command(doc! { "hello": 1 }).into_future()).await?;
        match said.get("localTime") {
            Some(Bson::DateTime(time)) => Ok(time.timestamp_millis()),
            other => Err(StoreError::Away(format!(
                "the database does not tell its time: {other:?}; is it MongoDB?"
            ))),
        }
    }

    /// The fields `fields` of the document at position `skip` among those that `filter` takes.
    pub(super) async fn find_one(
        &self,
        action: &str,
        collection: &str,
        filter: Document,
        fields: Document,
        order: Option<Document>,
        skip: u64,
    ) -> Result<Option<Document>, StoreError> {
        let collection = self.database.collection::<RawDocumentBuf>(collection);
        let mut find = collection.find_one(filter).projection(fields);
        if let Some(order) = order {
            find = find.sort(order);
        }
        if skip > 0 {
            find = find.skip(skip);
        }
        let found = in_time(action, WALK, find.into_future()).await?;
        let decoded = found.map(|raw| decoded(&raw)).transpose();
        decoded.map_err(|reason| StoreError::Away(format!("{action}: the document is {}", sanitize(reason))))
    }

    /// Calls `each` with the documents that `filter` takes.
    pub(super) async fn find(
        &self,
        collection: &str,
        filter: Document,
        order: Document,
        mut each: impl FnMut(&RawDocument),
    ) -> Result<(), StoreError> {
        const ACTION: &str = "reading stencils";
        let collection = self.collection(collection);
        let fields = doc! { "TCN": 1, "rootstock_tcn": 1, "scion_tcn": 1, "state": 1, "orchestrator": 1 };
        let find = collection.find(filter).sort(order).projection(fields).into_future();
        let mut cursor = in_time(ACTION, COMMAND, find).await?;
        while in_time(ACTION, COMMAND, cursor.advance()).await? {
            each(cursor.current());
        }
        Ok(())
    }

    /// How many documents `filter` takes.
    pub(super) async fn count(
        &self,
        action: &str,
        collection: &str,
        filter: Document,
    ) -> Result<u64, StoreError> {
        in_time(action, WALK, self.collection(collection).count_documents(filter).into_future()).await
    }

    /// Sets `fields` of the one document that `filter` takes; tells whether there is one.
    pub(super) async fn set(
        &self,
        action: &str,
        collection: &str,
        filter: Document,
        fields: Document,
    ) -> Result<bool, StoreError> {
        let collection = self.collection(collection);
        let update = collection.update_one(filter, doc! { "$set": fields });
        Ok(in_time(action, COMMAND, update.into_future()).await?.matched_count > 0)
    }

    /// The keys of all indexes.
    pub(super) async fn index_keys(&self, collection: &str) -> Result<Vec<Document>, StoreError> {
        const ACTION: &str = "reading indexes";
        let failed = |error: Error| match code(&error) {
            Some(NO_COLLECTION) => Ok(Vec::new()),
            _ => Err(explain(ACTION, &error)),
        };
        let collection = self.collection(collection);
        let listing = collection.list_indexes().into_future();
        let mut cursor = match timed(ACTION, COMMAND, listing).await? {
            Ok(cursor) => cursor,
            Err(error) => return failed(error),
        };
        let mut keys = Vec::new();
        while in_time(ACTION, COMMAND, cursor.advance()).await? {
            let index: IndexModel = cursor.deserialize_current().map_err(|error| explain(ACTION, &error))?;
            keys.push(index.keys);
        }
        Ok(keys)
    }

    /// Makes an index.
    pub(super) async fn create_index(&self, collection: &str, keys: Document) -> Result<(), StoreError> {
        let model = IndexModel::builder().keys(keys).build();
        let collection = self.collection(collection);
        let creation = collection.create_index(model).into_future();
        in_time("making indexes", INDEX, creation).await.map(drop)
    }

    fn collection(&self, name: &str) -> Collection<Document> {
        self.database.collection(name)
    }
}

async fn in_time<T>(
    action: &str,
    span: Duration,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<T, StoreError> {
    timed(action, span, future).await?.map_err(|error| explain(action, &error))
}

async fn timed<T>(action: &str, span: Duration, answer: impl Future<Output = T>) -> Result<T, StoreError> {
    mongodb::in_time(action, span, answer).await.map_err(StoreError::Away)
}
