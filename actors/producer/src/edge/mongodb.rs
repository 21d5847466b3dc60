//! Stencils, tangles and the lease in MongoDB (CONTRACT SD01 to SD10).
//!
//! Strict leaves documents exactly as the original does. Else the key `orchestrator`, of which the original takes no notice,
//! holds the cursor of a stencil, and in the configuration document the lease.

mod decode;
mod error;
mod filter;
mod index;
mod layout;
mod lease;
mod session;

use mongodb::bson::{Bson, Document, RawDocument, doc};

use crate::{
    advance::Mark,
    cursor::Census,
    id::Id,
    lease::Lease,
    stencil::{Ledger, Misread, Selection, Set, Stencil},
    store::{Store, StoreError},
};
use layout::{CONFIG, object_id};
use session::Session;

/// Documents that cannot be read, of which each list names so many; one is enough to block.
const MISREAD_MAX: usize = 100;

/// Which collections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The database.
    pub database: String,
    /// The collection of stencils.
    pub stencils: String,
    /// The collection of tangles.
    pub tangles: String,
}

/// A client of one database; its background tasks end when it is dropped.
#[derive(Debug)]
pub struct MongoStore {
    session: Session,
    place: Place,
    strict: bool,
}

impl MongoStore {
    /// Opens a client for `uri`, an address as all drivers take it. The server is asked for the first time when something is
    /// wanted of it. The concerns and preferences in `uri` do not count: what is written is journaled on a majority, and read
    /// from the primary.
    ///
    /// `strict`: a stencil's TCN may be any number, as the original reads it.
    ///
    /// # Errors
    /// [`StoreError::Away`] if `uri` is no address.
    pub async fn open(uri: &str, place: Place, strict: bool) -> Result<Self, StoreError> {
        let session = Session::open(uri, &place.database).await?;
        Ok(Self { session, place, strict })
    }

    /// The indexes of tangles that pages need and that are missing, as JSON; without them each page is a walk over all.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    pub async fn missing_indexes(&self) -> Result<Vec<String>, StoreError> {
        index::missing(&self.session, &self.place.tangles).await
    }

    /// Makes the indexes that [`MongoStore::missing_indexes`] names, however long it takes.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    pub async fn ensure_indexes(&self) -> Result<(), StoreError> {
        index::ensure(&self.session, &self.place.tangles).await
    }

    async fn config(&self, action: &str) -> Result<Document, StoreError> {
        let filter = doc! { "_id": CONFIG };
        let found = self.session.find_one(action, &self.place.stencils, filter, doc! {}, None, 0).await?;
        found.ok_or_else(|| {
            StoreError::Misread(Misread {
                collection: self.place.stencils.clone(),
                id: CONFIG.to_owned(),
                field: "_id",
                found: "missing".to_owned(),
                wanted: "the configuration document with current_completed_tcn and max_tcn",
            })
        })
    }
}

impl Store for MongoStore {
    async fn ledger(&self) -> Result<Ledger, StoreError> {
        let found = self.config("reading the configuration document").await?;
        Ok(layout::ledger(&self.place.stencils, &found)?)
    }

    async fn list(&self, selection: Selection) -> Result<Vec<Result<Stencil, Misread>>, StoreError> {
        let (mut stencils, mut misread) = (Vec::new(), 0);
        let each = |raw: &RawDocument| {
            let stencil = decode::decoded(raw).map_err(|found| Misread {
                collection: self.place.stencils.clone(),
                id: decode::id_of(raw),
                field: "of any name",
                found,
                wanted: "valid BSON",
            });
            let stencil =
                stencil.and_then(|found| layout::stencil(&self.place.stencils, &found, self.strict));
            misread += usize::from(stencil.is_err());
            if stencil.is_ok() || misread <= MISREAD_MAX {
                stencils.push(stencil);
            }
        };
        self.session
            .find(&self.place.stencils, filter::stencils(selection), doc! { "TCN": 1, "_id": 1 }, each)
            .await?;
        Ok(stencils)
    }

    async fn count(&self, selection: Selection) -> Result<u64, StoreError> {
        self.session.count("counting stencils", &self.place.stencils, filter::stencils(selection)).await
    }

    async fn census(&self, set: Set) -> Result<Census, StoreError> {
        const ACTION: &str = "counting tangles";
        let tangles = &self.place.tangles;
        let count = self.session.count(ACTION, tangles, filter::tangles(set)).await?;
        let (fields, order) = (doc! { "_id": 1 }, Some(doc! { "_id": -1 }));
        let greatest = self.session.find_one(ACTION, tangles, filter::tangles(set), fields, order, 0).await?;
        let greatest = greatest.map(|found| layout::id(tangles, &found)).transpose()?;
        Ok(Census { count, greatest })
    }

    async fn page(&self, set: Set, from: Option<Id>, skip: u32) -> Result<Option<Id>, StoreError> {
        let tangles = &self.place.tangles;
        let filter = match from {
            None => filter::tangles(set),
            Some(from) => doc! { "$and": [filter::tangles(set), { "_id": { "$gte": object_id(from) } }] },
        };
        let (fields, order) = (doc! { "_id": 1 }, Some(doc! { "_id": 1 }));
        let found =
            self.session.find_one("finding a page", tangles, filter, fields, order, skip.into()).await?;
        Ok(found.map(|found| layout::id(tangles, &found)).transpose()?)
    }

    async fn mark(&self, mark: &Mark, fence: Option<u64>) -> Result<(), StoreError> {
        let mut filter = doc! { "_id": object_id(mark.id) };
        let mut fields = doc! { "state": layout::number(mark.state.number()) };
        if let Some(epoch) = fence {
            let epoch = layout::long(epoch);
            // A stencil that no holder has marked yet lets the first one in; from then on older ones are kept out.
            filter.insert("orchestrator.epoch", doc! { "$not": { "$gt": epoch.clone() } });
            fields.insert("orchestrator.epoch", epoch);
        }
        if let Some(cursor) = &mark.cursor {
            fields.insert("orchestrator.cursor", layout::cursor(cursor));
        }
        let written = self.session.set("writing a stencil", &self.place.stencils, filter, fields).await?;
        if written || fence.is_none() { Ok(()) } else { Err(StoreError::Fenced) }
    }

    async fn complete(&self, from: i64, to: i64, fence: Option<u64>) -> Result<(), StoreError> {
        let mut filter = doc! { "_id": CONFIG };
        if let Some(epoch) = fence {
            filter.insert("orchestrator.lease.epoch", layout::long(epoch));
            // `to`: the reply to a first try was lost.
            let either: Vec<Bson> = vec![layout::number(from), layout::number(to)];
            filter.insert("current_completed_tcn", doc! { "$in": either });
        }
        let fields = doc! { "current_completed_tcn": layout::number(to) };
        let written = self.session.set("completing a TCN", &self.place.stencils, filter, fields).await?;
        if written || fence.is_none() { Ok(()) } else { Err(StoreError::Fenced) }
    }

    async fn lease(&self) -> Result<(i64, Option<Lease>), StoreError> {
        let now_ms = self.session.clock_ms().await?;
        let found = self.config("reading the lease").await?;
        Ok((now_ms, layout::lease(&self.place.stencils, &found)?))
    }

    async fn take(&self, seen: Option<&Lease>, lease: &Lease) -> Result<bool, StoreError> {
        lease::take(&self.session, &self.place.stencils, seen, lease).await
    }

    async fn renew(&self, epoch: u64, ttl_ms: u64) -> Result<bool, StoreError> {
        lease::renew(&self.session, &self.place.stencils, epoch, ttl_ms).await
    }
}
