//! Client of one database, with time-outs.

use std::time::Duration;

use ::mongodb::{
    Collection, Database,
    bson::{Document, RawDocument, RawDocumentBuf, doc, rawdoc},
    error::Error,
};
use orchestrator_edge::mongodb;

use super::error::{explain, why_no_index};
use crate::{method::Entity, store::StoreError};

/// Time-out of a command; longer than the server's time-out for its majority.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Time-out of the next documents of a query; some queries scan a whole collection.
const DOCUMENTS_TIMEOUT: Duration = Duration::from_secs(600);
/// Documents of a page that are fetched at once, where the size of 16 MiB allows it. Documents after
/// the end of the page are fetched in vain.
const BATCH: u32 = 200;
/// Time-out of the creation of an index in a large database.
const INDEX_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

#[derive(Debug)]
pub(super) struct Session {
    database: Database,
}

impl Session {
    pub(super) async fn open(uri: &str, name: &str) -> Result<Self, StoreError> {
        let database = mongodb::open(uri, name, "orchestrator provenance", None).await;
        let session = Self { database: database.map_err(StoreError::Refused)? };
        session.command("connecting", rawdoc! { "ping": 1 }).await?;
        Ok(session)
    }

    /// Runs a command.
    pub(super) async fn command(
        &self,
        action: &str,
        command: RawDocumentBuf,
    ) -> Result<Document, StoreError> {
        let running = self.database.run_raw_command(command);
        with_timeout(action, COMMAND_TIMEOUT, running.into_future())
            .await?
            .map_err(|error| explain(action, &error))
    }

    /// Creates the unique index on the identifiers of `entity` if it is missing; returns the reason
    /// if it is impossible.
    pub(super) async fn index(&self, entity: Entity) -> Result<Option<String>, StoreError> {
        const ACTION: &str = "making indexes";
        let command = rawdoc! {
            "createIndexes": entity.value(),
            "indexes": [{ "key": { "sha1": 1 }, "name": "sha1_1", "unique": true }],
            "writeConcern": { "w": "majority" },
        };
        let made =
            with_timeout(ACTION, INDEX_TIMEOUT, self.database.run_raw_command(command).into_future()).await?;
        match made {
            Ok(_) => Ok(None),
            Err(error) => match why_no_index(&error) {
                Some(reason) => Ok(Some(reason)),
                None => Err(explain(ACTION, &error)),
            },
        }
    }

    /// Calls `each` with `fields` of the documents of `entity` that match `filter`.
    pub(super) async fn find(
        &self,
        entity: Entity,
        filter: Document,
        fields: Document,
        mut each: impl FnMut(&RawDocument) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        const ACTION: &str = "answering a question";
        let failed = |error: Error| explain(ACTION, &error);
        let collection = self.collection(entity);
        let find = collection.find(filter).projection(fields).into_future();
        let mut cursor = with_timeout(ACTION, DOCUMENTS_TIMEOUT, find).await?.map_err(failed)?;
        while with_timeout(ACTION, DOCUMENTS_TIMEOUT, cursor.advance()).await?.map_err(failed)? {
            each(cursor.current())?;
        }
        Ok(())
    }

    /// Calls `each` with `fields` of the documents of `entity` that match `filter`, in the order of
    /// `_id`, until it returns false.
    pub(super) async fn find_in_order(
        &self,
        entity: Entity,
        filter: Document,
        fields: Document,
        mut each: impl FnMut(&RawDocument) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        const ACTION: &str = "reading a page of rows";
        let failed = |error: Error| explain(ACTION, &error);
        let collection = self.collection(entity);
        let find = collection.find(filter).projection(fields).sort(doc! { "_id": 1 });
        let find = find.batch_size(BATCH).into_future();
        let mut cursor = with_timeout(ACTION, DOCUMENTS_TIMEOUT, find).await?.map_err(failed)?;
        while with_timeout(ACTION, DOCUMENTS_TIMEOUT, cursor.advance()).await?.map_err(failed)? {
            if !each(cursor.current())? {
                break;
            }
        }
        Ok(())
    }

    /// Returns the estimated number of documents of `entity`; an exact count would scan them all.
    /// After a crash of the server it may lack the writes of its last minute.
    pub(super) async fn count(&self, entity: Entity) -> Result<u64, StoreError> {
        const ACTION: &str = "counting";
        let collection = self.collection(entity);
        let counting = collection.estimated_document_count().into_future();
        with_timeout(ACTION, COMMAND_TIMEOUT, counting).await?.map_err(|error| explain(ACTION, &error))
    }

    fn collection(&self, entity: Entity) -> Collection<Document> {
        self.database.collection(entity.value())
    }
}

async fn with_timeout<T>(
    action: &str,
    span: Duration,
    answer: impl Future<Output = T>,
) -> Result<T, StoreError> {
    mongodb::with_timeout(action, span, answer).await.map_err(StoreError::Unavailable)
}
