//! What the producer needs of the database: a trait, so that its rules are tried on more documents than a server takes in time.

use crate::{
    advance::Mark,
    cursor::Census,
    id::Id,
    lease::Lease,
    stencil::{Ledger, Misread, Selection, Set, Stencil},
};

/// Why a question has no answer, or something is not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database is away, or refuses for now; says what to do.
    #[error("{0}")]
    Away(String),
    /// A document is not as it should be.
    #[error(transparent)]
    Misread(#[from] Misread),
    /// Another producer holds the lease, or what was to be written to is gone: nothing was written.
    #[error("another producer has taken over, or the document is gone: beginning anew")]
    Fenced,
}

/// Stencils, tangles, and the lease. What is written is durable when a call returns.
///
/// `fence` is the epoch of one's lease: who has been overtaken gets [`StoreError::Fenced`]. None: no lease is looked at.
pub trait Store {
    /// The configuration document.
    fn ledger(&self) -> impl Future<Output = Result<Ledger, StoreError>>;

    /// Stencils by (TCN, `_id`), each read or not.
    fn list(
        &self,
        selection: Selection,
    ) -> impl Future<Output = Result<Vec<Result<Stencil, Misread>>, StoreError>>;

    /// How many stencils, also those that cannot be read.
    fn count(&self, selection: Selection) -> impl Future<Output = Result<u64, StoreError>>;

    /// How many tangles a set has, and the greatest.
    fn census(&self, set: Set) -> impl Future<Output = Result<Census, StoreError>>;

    /// Of the tangles of `set` from `from` on (None: from the least), in the order of `_id`, the one at position `skip`.
    fn page(
        &self,
        set: Set,
        from: Option<Id>,
        skip: u32,
    ) -> impl Future<Output = Result<Option<Id>, StoreError>>;

    /// Writes what became of a stencil.
    fn mark(&self, mark: &Mark, fence: Option<u64>) -> impl Future<Output = Result<(), StoreError>>;

    /// Writes that TCN `to` is complete; with a fence only if `from` still is what is written.
    fn complete(
        &self,
        from: i64,
        to: i64,
        fence: Option<u64>,
    ) -> impl Future<Output = Result<(), StoreError>>;

    /// The database's time, milliseconds since 1970, and the lease.
    fn lease(&self) -> impl Future<Output = Result<(i64, Option<Lease>), StoreError>>;

    /// Writes `lease` if what is there still is `seen`; tells whether it did.
    fn take(&self, seen: Option<&Lease>, lease: &Lease) -> impl Future<Output = Result<bool, StoreError>>;

    /// Lets the lease of `epoch` end `ttl_ms` from now; tells whether it still is there. 0 gives it up.
    fn renew(&self, epoch: u64, ttl_ms: u64) -> impl Future<Output = Result<bool, StoreError>>;
}
