//! Client of one database, with a time-out for each request (CONTRACT SE06).

use std::{sync::Arc, time::Duration};

use ::mongodb::{
    Database, IndexModel,
    bson::{Bson, Document, RawDocument, RawDocumentBuf, doc},
    error::{Error, ErrorKind},
    options::{Acknowledgment, FindOptions, WriteConcern},
};
use orchestrator_edge::{PeerError, PeerErrorKind, mongodb::Client};
use orchestrator_observe::LinkReporter;
use orchestrator_text::sanitize;
use parking_lot::Mutex;

use super::decode::decoded;
use crate::store::StoreError;

/// Code `NamespaceNotFound`.
const NO_COLLECTION: i32 = 26;
/// Write concern time-out.
const WRITE_CONCERN_TIMEOUT: Duration = Duration::from_secs(20);
/// Time-out of a command, longer than that of the write concern.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Time-out of a count or a page, which is a full collection scan without an index.
const SCAN_TIMEOUT: Duration = Duration::from_secs(600);
/// Time-out of creating an index.
const INDEX_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

/// Kind of request that the link shows as refused.
const LEASE: &str = "lease";
/// Greatest delay after a refused renewal of the lease.
const LEASE_RETRY: Duration = Duration::from_millis(500);

fn unavailable(reason: String) -> StoreError {
    StoreError::Unavailable(reason.into())
}

#[derive(Debug)]
pub(super) struct Session {
    uri: String,
    name: String,
    link: Option<LinkReporter>,
    /// `None` after a broken connection: the driver's other pooled connections may be broken, too.
    client: Mutex<Option<Arc<Client>>>,
}

async fn open(uri: &str, name: &str, link: Option<LinkReporter>) -> Result<Arc<Client>, StoreError> {
    let concern =
        WriteConcern::builder().w(Acknowledgment::Majority).journal(true).w_timeout(WRITE_CONCERN_TIMEOUT);
    let client = Client::open(uri, name, "orchestrator producer", Some(concern.build())).await;
    client.map(|client| Arc::new(client.reporting_to(link))).map_err(StoreError::Unavailable)
}

async fn update(
    client: &Client,
    action: &str,
    collection: &str,
    filter: Document,
    change: Document,
) -> Result<bool, PeerError> {
    let update = |database: Database| {
        let collection = database.collection::<Document>(collection);
        async move { collection.update_one(filter, change).await }
    };
    Ok(client.call(action, COMMAND_TIMEOUT, update).await?.matched_count > 0)
}

impl Session {
    pub(super) async fn open(uri: &str, name: &str, link: Option<LinkReporter>) -> Result<Self, StoreError> {
        let client = Mutex::new(Some(open(uri, name, link.clone()).await?));
        Ok(Self { uri: uri.to_owned(), name: name.to_owned(), link, client })
    }

    /// Connects with a new client after a broken connection.
    async fn client(&self) -> Result<Arc<Client>, StoreError> {
        let current = self.client.lock().clone();
        if let Some(client) = current {
            return Ok(client);
        }
        let client = open(&self.uri, &self.name, self.link.clone()).await?;
        *self.client.lock() = Some(client.clone());
        Ok(client)
    }

    /// Translates an error. Unless the server refused the command, the client is replaced.
    fn failed(&self, error: PeerError) -> StoreError {
        if error.kind != PeerErrorKind::Refused {
            *self.client.lock() = None;
        }
        StoreError::Unavailable((&error).into())
    }

    async fn call<T, F>(
        &self,
        action: &str,
        span: Duration,
        call: impl FnOnce(Database) -> F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let client = self.client().await?;
        client.call(action, span, call).await.map_err(|error| self.failed(error))
    }

    /// Clock of the server, since 1970.
    pub(super) async fn clock_ms(&self) -> Result<i64, StoreError> {
        const ACTION: &str = "reading its clock";
        let hello = |database: Database| async move { database.run_command(doc! { "hello": 1 }).await };
        let said = self.call(ACTION, COMMAND_TIMEOUT, hello).await?;
        match said.get("localTime") {
            Some(Bson::DateTime(time)) => Ok(time.timestamp_millis()),
            other => Err(unavailable(format!(
                "the reply to hello has no localTime but {other:?}: is this MongoDB?"
            ))),
        }
    }

    /// Finds the document at position `skip` of those that match `filter`; the result has `fields`.
    pub(super) async fn find_one(
        &self,
        action: &str,
        collection: &str,
        filter: Document,
        fields: Document,
        order: Option<Document>,
        skip: u64,
    ) -> Result<Option<Document>, StoreError> {
        let find = |database: Database| {
            let collection = database.collection::<RawDocumentBuf>(collection);
            async move {
                let mut find = collection.find_one(filter).projection(fields);
                if let Some(order) = order {
                    find = find.sort(order);
                }
                if skip > 0 {
                    find = find.skip(skip);
                }
                find.await
            }
        };
        let found = self.call(action, SCAN_TIMEOUT, find).await?;
        let decoded = found.map(|raw| decoded(&raw)).transpose();
        decoded.map_err(|reason| unavailable(format!("{action}: the document is {}", sanitize(reason))))
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
        let failed = |error| self.failed(error);
        let fields = doc! { "TCN": 1, "rootstock_tcn": 1, "scion_tcn": 1, "state": 1, "orchestrator": 1 };
        let options = FindOptions::builder().sort(order).projection(fields).build();
        let client = self.client().await?;
        let found = client.find(ACTION, COMMAND_TIMEOUT, collection, filter, options).await;
        let mut batches = found.map_err(failed)?;
        while let Some(batch) = batches.next_batch().await.map_err(failed)? {
            for document in batch.documents().map_err(failed)? {
                each(document.map_err(failed)?);
            }
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
        let count = |database: Database| {
            let collection = database.collection::<Document>(collection);
            async move { collection.count_documents(filter).await }
        };
        self.call(action, SCAN_TIMEOUT, count).await
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

    /// Does the same as [`Session::set`] for the lease. A server that refuses this periodic write is down,
    /// though it may answer reads.
    pub(super) async fn set_lease(
        &self,
        action: &str,
        collection: &str,
        filter: Document,
        fields: Document,
    ) -> Result<bool, StoreError> {
        let client = self.client().await?;
        let written = update(&client, action, collection, filter, doc! { "$set": fields }).await;
        match (&self.link, &written) {
            (Some(link), Ok(_)) => link.accepted(LEASE),
            (Some(link), Err(error)) if error.kind == PeerErrorKind::Refused => {
                link.refused(LEASE, error, LEASE_RETRY);
            }
            _ => {}
        }
        written.map_err(|error| self.failed(error))
    }

    /// Applies `change` to the document that matches `filter`. Returns whether there is one.
    pub(super) async fn update(
        &self,
        action: &str,
        collection: &str,
        filter: Document,
        change: Document,
    ) -> Result<bool, StoreError> {
        let client = self.client().await?;
        update(&client, action, collection, filter, change).await.map_err(|error| self.failed(error))
    }

    pub(super) async fn index_keys(&self, collection: &str) -> Result<Vec<Document>, StoreError> {
        const ACTION: &str = "reading indexes";
        let list = |database: Database| {
            let collection = database.collection::<Document>(collection);
            async move {
                let mut cursor = match collection.list_indexes().await {
                    Ok(cursor) => cursor,
                    Err(error) => {
                        let is_missing =
                            matches!(&*error.kind, ErrorKind::Command(said) if said.code == NO_COLLECTION);
                        return if is_missing { Ok(Vec::new()) } else { Err(error) };
                    }
                };
                let mut keys = Vec::new();
                while cursor.advance().await? {
                    keys.push(cursor.deserialize_current()?.keys);
                }
                Ok(keys)
            }
        };
        self.call(ACTION, COMMAND_TIMEOUT, list).await
    }

    pub(super) async fn create_index(&self, collection: &str, keys: Document) -> Result<(), StoreError> {
        let create = |database: Database| {
            let collection = database.collection::<Document>(collection);
            let model = IndexModel::builder().keys(keys).build();
            async move { collection.create_index(model).await }
        };
        self.call("creating indexes", INDEX_TIMEOUT, create).await.map(drop)
    }
}
