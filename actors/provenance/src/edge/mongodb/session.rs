//! A client of one database, and the patience with which it is asked.

use std::time::Duration;

use ::mongodb::{
    Collection, Database,
    bson::{Document, RawDocument, RawDocumentBuf, rawdoc},
    error::Error,
};
use orchestrator_edge::mongodb;

use super::error::{explain, why_no_index};
use crate::{method::Entity, store::StoreError};

/// How long a command may take: longer than the server waits for its majority.
const COMMAND: Duration = Duration::from_secs(60);
/// How long the next documents of a question may take: some walk over a whole collection.
const DOCUMENTS: Duration = Duration::from_secs(600);
/// How long an index may take in a database that has grown without.
const INDEX: Duration = Duration::from_secs(24 * 3_600);

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
        in_time(action, COMMAND, running.into_future()).await?.map_err(|error| explain(action, &error))
    }

    /// Makes the unique index on the identifiers of `entity` if it is missing; gives the reason if it cannot be had.
    pub(super) async fn index(&self, entity: Entity) -> Result<Option<String>, StoreError> {
        const ACTION: &str = "making indexes";
        let command = rawdoc! {
            "createIndexes": entity.value(),
            "indexes": [{ "key": { "sha1": 1 }, "name": "sha1_1", "unique": true }],
            "writeConcern": { "w": "majority" },
        };
        let made = in_time(ACTION, INDEX, self.database.run_raw_command(command).into_future()).await?;
        match made {
            Ok(_) => Ok(None),
            Err(error) => match why_no_index(&error) {
                Some(reason) => Ok(Some(reason)),
                None => Err(explain(ACTION, &error)),
            },
        }
    }

    /// Calls `each` with the fields `fields` of the documents of `entity` that `filter` takes.
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
        let mut cursor = in_time(ACTION, DOCUMENTS, find).await?.map_err(failed)?;
        while in_time(ACTION, DOCUMENTS, cursor.advance()).await?.map_err(failed)? {
            each(cursor.current())?;
        }
        Ok(())
    }

    /// How many documents `entity` has, as the server keeps count of them: counting them would be a walk over all. After a server
    /// was killed it may be off by the writes of its last minute.
    pub(super) async fn count(&self, entity: Entity) -> Result<u64, StoreError> {
        const ACTION: &str = "counting";
        let collection = self.collection(entity);
        let counting = collection.estimated_document_count().into_future();
        in_time(ACTION, COMMAND, counting).await?.map_err(|error| explain(ACTION, &error))
    }

    fn collection(&self, entity: Entity) -> Collection<Document> {
        self.database.collection(entity.value())
    }
}

async fn in_time<T>(action: &str, span: Duration, answer: impl Future<Output = T>) -> Result<T, StoreError> {
    mongodb::with_timeout(action, span, answer).await.map_err(StoreError::Away)
}
