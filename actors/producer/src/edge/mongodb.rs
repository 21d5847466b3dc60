//! Stencils, tangles and the lease in MongoDB (CONTRACT SD01 to SD12).
//!
//! Strict mode writes the same documents as the original. The default adds the key `orchestrator`, which the
//! original ignores: the cursor of a stencil, and the lease in the configuration document.

mod decode;
mod filter;
mod index;
mod layout;
mod lease;
mod session;

use mongodb::bson::{Bson, Document, RawDocument, doc};
use orchestrator_observe::{FailureKind, LinkFailure, LinkReporter};
use orchestrator_producer_rules::{
    advance::StencilUpdate,
    cursor::SetSummary,
    id::Id,
    lease::Lease,
    stencil::{ConfigDocument, InvalidDocument, Selection, Set, Stencil},
};

use crate::{
    completion::{Completion, CompletionId, CompletionState, TcnStart},
    store::{Store, StoreError},
};
use layout::{CONFIG, object_id};
use session::Session;

/// Upper bound of the invalid documents in one list. A single one is enough to block.
const INVALID_MAX: usize = 100;

/// Names of the database and its collections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collections {
    pub database: String,
    pub stencils: String,
    pub tangles: String,
}

/// Client of one database. Its background tasks end when it is dropped.
#[derive(Debug)]
pub(crate) struct MongoStore {
    session: Session,
    collections: Collections,
    strict: bool,
}

impl MongoStore {
    /// Opens a client without connecting yet. Its requests are reported to `link`, if there is one. Concerns
    /// and preferences in `uri` have no effect: writes go to the journals of a majority, and reads to the
    /// primary (CONTRACT SD10). With `strict`, a stencil's TCN may be any number.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if `uri` is invalid.
    pub(crate) async fn open(
        uri: &str,
        collections: Collections,
        strict: bool,
        link: Option<LinkReporter>,
    ) -> Result<Self, StoreError> {
        let session = Session::open(uri, &collections.database, link).await?;
        Ok(Self { session, collections, strict })
    }

    /// Returns the missing indexes of the tangles, as JSON. Without them, each page is a full collection
    /// scan.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]
    pub(crate) async fn missing_indexes(&self) -> Result<Vec<String>, StoreError> {
        index::missing(&self.session, &self.collections.tangles).await
    }

    /// Creates the missing indexes, without a short time limit.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]
    pub(crate) async fn ensure_indexes(&self) -> Result<(), StoreError> {
        index::ensure(&self.session, &self.collections.tangles).await
    }

    /// Changes the configuration document.
    async fn change_config(
        &self,
        action: &str,
        change: Document,
        fence: Option<u64>,
    ) -> Result<(), StoreError> {
        let mut filter = doc! { "_id": CONFIG };
        if let Some(epoch) = fence {
            filter.insert("orchestrator.lease.epoch", layout::long(epoch));
        }
        let written = self.session.update(action, &self.collections.stencils, filter, change).await?;
        if written || fence.is_none() { Ok(()) } else { Err(StoreError::Fenced) }
    }

    async fn config(&self, action: &str) -> Result<Document, StoreError> {
        let filter = doc! { "_id": CONFIG };
        let found =
            self.session.find_one(action, &self.collections.stencils, filter, doc! {}, None, 0).await?;
        found.ok_or_else(|| {
            let Collections { database, stencils, .. } = &self.collections;
            let reason = format!("collection {stencils} of database {database} has no document {CONFIG}");
            let help = format!(
                "in mongosh, database {database}: db.{stencils}.insertOne({{_id: \"{CONFIG}\", current_completed_tcn: 0, max_tcn: LAST}}), \
                 with the last TCN to produce; or correct producer.mongodb.database and producer.mongodb.stencils"
            );
            StoreError::Unavailable(LinkFailure::new(FailureKind::Unusable, reason).with_help(help))
        })
    }
}

impl Store for MongoStore {
    async fn config_document(&self) -> Result<ConfigDocument, StoreError> {
        let found = self.config("reading the configuration document").await?;
        Ok(layout::config_document(&self.collections.stencils, &found)?)
    }

    async fn list(&self, selection: Selection) -> Result<Vec<Result<Stencil, InvalidDocument>>, StoreError> {
        let (mut stencils, mut invalid_count) = (Vec::new(), 0);
        let each = |raw: &RawDocument| {
            let stencil = decode::decoded(raw).map_err(|found| InvalidDocument {
                collection: self.collections.stencils.clone(),
                id: decode::id_of(raw),
                field: "of any name",
                found,
                wanted: "valid BSON",
            });
            let stencil =
                stencil.and_then(|found| layout::stencil(&self.collections.stencils, &found, self.strict));
            invalid_count += usize::from(stencil.is_err());
            if stencil.is_ok() || invalid_count <= INVALID_MAX {
                stencils.push(stencil);
            }
        };
        self.session
            .find(&self.collections.stencils, filter::stencils(selection), doc! { "TCN": 1, "_id": 1 }, each)
            .await?;
        Ok(stencils)
    }

    async fn count(&self, selection: Selection) -> Result<u64, StoreError> {
        self.session.count("counting stencils", &self.collections.stencils, filter::stencils(selection)).await
    }

    async fn set_summary(&self, set: Set) -> Result<SetSummary, StoreError> {
        const ACTION: &str = "counting tangles";
        let tangles = &self.collections.tangles;
        let count = self.session.count(ACTION, tangles, filter::tangles(set)).await?;
        let (fields, order) = (doc! { "_id": 1 }, Some(doc! { "_id": -1 }));
        let greatest = self.session.find_one(ACTION, tangles, filter::tangles(set), fields, order, 0).await?;
        let greatest = greatest.map(|found| layout::id(tangles, &found)).transpose()?;
        Ok(SetSummary { count, greatest })
    }

    async fn page(&self, set: Set, from: Option<Id>, skip: u32) -> Result<Option<Id>, StoreError> {
        let tangles = &self.collections.tangles;
        let filter = match from {
            None => filter::tangles(set),
            Some(from) => doc! { "$and": [filter::tangles(set), { "_id": { "$gte": object_id(from) } }] },
        };
        let (fields, order) = (doc! { "_id": 1 }, Some(doc! { "_id": 1 }));
        let found =
            self.session.find_one("finding a page", tangles, filter, fields, order, skip.into()).await?;
        Ok(found.map(|found| layout::id(tangles, &found)).transpose()?)
    }

    async fn update_stencil(&self, update: &StencilUpdate, fence: Option<u64>) -> Result<(), StoreError> {
        let mut filter = doc! { "_id": object_id(update.id) };
        let mut fields = doc! { "state": layout::number(update.state.number()) };
        if let Some(epoch) = fence {
            let epoch = layout::long(epoch);
            // A stencil without an epoch accepts any holder; from then on, older epochs are refused.
            filter.insert("orchestrator.epoch", doc! { "$not": { "$gt": epoch.clone() } });
            fields.insert("orchestrator.epoch", epoch);
        }
        if let Some(cursor) = &update.cursor {
            fields.insert("orchestrator.cursor", layout::cursor(cursor));
        }
        let written =
            self.session.set("writing a stencil", &self.collections.stencils, filter, fields).await?;
        if written || fence.is_none() { Ok(()) } else { Err(StoreError::Fenced) }
    }

    async fn complete(
        &self,
        from: i64,
        to: i64,
        completion: Option<&Completion>,
        fence: Option<u64>,
    ) -> Result<(), StoreError> {
        let mut filter = doc! { "_id": CONFIG };
        if let Some(epoch) = fence {
            filter.insert("orchestrator.lease.epoch", layout::long(epoch));
            // `to` is the present value if the reply of an earlier attempt was lost.
            let either: Vec<Bson> = vec![layout::number(from), layout::number(to)];
            filter.insert("current_completed_tcn", doc! { "$in": either });
        }
        let mut fields = doc! { "current_completed_tcn": layout::number(to) };
        if let Some(completion) = completion {
            fields.insert(layout::completion_key(completion.id), layout::completion(completion));
        }
        let written =
            self.session.set("completing a TCN", &self.collections.stencils, filter, fields).await?;
        if written || fence.is_none() { Ok(()) } else { Err(StoreError::Fenced) }
    }

    async fn completion_state(&self) -> Result<CompletionState, StoreError> {
        let found = self.config("reading the completions").await?;
        Ok(layout::completion_state(&self.collections.stencils, &found)?)
    }

    async fn start_tcn(&self, start: TcnStart, fence: Option<u64>) -> Result<(), StoreError> {
        let started = doc! { "tcn": layout::number(start.tcn), "ms": start.ms };
        let change = doc! { "$set": { "orchestrator.tcn_started": started } };
        self.change_config("recording the start of a TCN", change, fence).await
    }

    async fn remove_completion(&self, id: CompletionId, fence: Option<u64>) -> Result<(), StoreError> {
        let change = doc! { "$unset": { layout::completion_key(id): "" } };
        self.change_config("removing a completion", change, fence).await
    }

    async fn lease(&self) -> Result<(i64, Option<Lease>), StoreError> {
        let now_ms = self.session.clock_ms().await?;
        let found = self.config("reading the lease").await?;
        Ok((now_ms, layout::lease(&self.collections.stencils, &found)?))
    }

    async fn take(&self, seen: Option<&Lease>, lease: &Lease) -> Result<bool, StoreError> {
        lease::take(&self.session, &self.collections.stencils, seen, lease).await
    }

    async fn renew(&self, epoch: u64, ttl_ms: u64) -> Result<bool, StoreError> {
        lease::renew(&self.session, &self.collections.stencils, epoch, ttl_ms).await
    }
}
