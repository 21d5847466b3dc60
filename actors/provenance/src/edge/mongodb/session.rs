//! Client of one database, with time-outs.

use std::time::Duration;

use ::mongodb::{
    Database,
    bson::{Document, RawDocument, RawDocumentBuf, doc, rawdoc},
    error::{CommandError, ErrorKind},
    options::FindOptions,
};
use orchestrator_edge::mongodb::{self, Client};
use orchestrator_text::sanitize;

use super::error::INDEX_IMPOSSIBLE;
use crate::{method::Entity, store::StoreError};

/// Time-out of a command; longer than the server's time-out for its majority.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Time-out of the next documents of a query; some queries scan a whole collection.
const DOCUMENTS_TIMEOUT: Duration = Duration::from_secs(600);
/// Documents of a page that are fetched at once, where the size of 16 MiB allows it. Documents after
/// the end of the page are fetched in vain.
const BATCH: u32 = 200;
/// Time-out of the creation of an index in a large database.
const INDEX_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

#[derive(Debug)]
pub(super) struct Session {
    client: Client,
}

impl Session {
    pub(super) async fn open(uri: &str, name: &str) -> Result<Self, StoreError> {
        mongodb::check_address(uri).map_err(|error| StoreError::Refused(error.to_string()))?;
        let client = Client::open(uri, name, "orchestrator provenance", None).await;
        let session = Self { client: client.map_err(StoreError::unavailable)? };
        const ACTION: &str = "connecting";
        let connected = session.command(ACTION, COMMAND_TIMEOUT, rawdoc! { "ping": 1 }).await?;
        connected.map_err(|refused| unavailable(ACTION, &refused))?;
        Ok(session)
    }

    /// Runs a command. The inner error is the server's refusal, unless it asks for a repetition.
    pub(super) async fn command(
        &self,
        action: &str,
        span: Duration,
        command: RawDocumentBuf,
    ) -> Result<Result<Document, CommandError>, StoreError> {
        let run = |database: Database| async move {
            match database.run_raw_command(command).await {
                Ok(answer) => Ok(Ok(answer)),
                Err(error) => match &*error.kind {
                    ErrorKind::Command(refused) if !error.contains_label("RetryableWriteError") => {
                        Ok(Err(refused.clone()))
                    }
                    _ => Err(error),
                },
            }
        };
        Ok(self.client.call(action, span, run).await?)
    }

    /// Creates the unique index on the identifiers of `entity` if it is missing; returns the reason
    /// if it is impossible.
    pub(super) async fn index(&self, entity: Entity) -> Result<Option<String>, StoreError> {
        const ACTION: &str = "making indexes";
        let create = rawdoc! {
            "createIndexes": entity.value(),
            "indexes": [{ "key": { "sha1": 1 }, "name": "sha1_1", "unique": true }],
            "writeConcern": { "w": "majority" },
        };
        match self.command(ACTION, INDEX_TIMEOUT, create).await? {
            Ok(_) => Ok(None),
            Err(refused) if INDEX_IMPOSSIBLE.contains(&refused.code) => Ok(Some(sanitize(&refused.message))),
            Err(refused) => Err(unavailable(ACTION, &refused)),
        }
    }

    /// Calls `each` with `fields` of the documents of `entity` that match `filter`.
    pub(super) async fn find(
        &self,
        entity: Entity,
        filter: Document,
        fields: Document,
        each: &mut dyn FnMut(&RawDocument) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        const ACTION: &str = "answering a question";
        let mut options = FindOptions::default();
        options.projection = Some(fields);
        self.each(ACTION, entity, filter, options, &mut |document| each(document).map(|()| true)).await
    }

    /// Calls `each` with `fields` of the documents of `entity` that match `filter`, in the order of
    /// `_id`, until it returns false.
    pub(super) async fn find_in_order(
        &self,
        entity: Entity,
        filter: Document,
        fields: Document,
        each: &mut dyn FnMut(&RawDocument) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        const ACTION: &str = "reading a page of rows";
        let mut options = FindOptions::default();
        options.projection = Some(fields);
        options.sort = Some(doc! { "_id": 1 });
        options.batch_size = Some(BATCH);
        self.each(ACTION, entity, filter, options, each).await
    }

    async fn each(
        &self,
        action: &'static str,
        entity: Entity,
        filter: Document,
        options: FindOptions,
        each: &mut dyn FnMut(&RawDocument) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let found = self.client.find(action, DOCUMENTS_TIMEOUT, entity.value(), filter, options).await;
        let mut batches = found?;
        while let Some(batch) = batches.next_batch().await? {
            for document in batch.documents()? {
                if !each(document?)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Estimate: an exact count would scan all documents. After a crash of the server it may lack the writes
    /// of its last minute.
    pub(super) async fn count(&self, entity: Entity) -> Result<u64, StoreError> {
        const ACTION: &str = "counting";
        let count = |database: Database| {
            let collection = database.collection::<Document>(entity.value());
            async move { collection.estimated_document_count().await }
        };
        Ok(self.client.call(ACTION, COMMAND_TIMEOUT, count).await?)
    }
}

fn unavailable(action: &str, refused: &CommandError) -> StoreError {
    StoreError::Unavailable(mongodb::command_failure(action, &refused.message, refused.code))
}
