//! Interface to the database. Tests implement it in memory.

use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_producer_rules::{
    advance::StencilUpdate,
    cursor::SetSummary,
    id::Id,
    lease::Lease,
    stencil::{ConfigDocument, InvalidDocument, Selection, Set, Stencil},
};

use crate::completion::{Completion, CompletionId, CompletionState, TcnStart};

/// Error of the database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    /// The database is unavailable or refuses the request for now.
    #[error("{0}")]
    Unavailable(LinkFailure),
    #[error(transparent)]
    InvalidDocument(#[from] InvalidDocument),
    /// Nothing was written: another producer has the lease, or the document is gone.
    #[error("another producer has the lease, or the document is gone: starting over")]
    Fenced,
}

impl From<&StoreError> for LinkFailure {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable(failure) => failure.clone(),
            StoreError::InvalidDocument(document) => Self::new(FailureKind::Unusable, document.to_string())
                .with_help(format!(
                    "in mongosh: db.{}.find({{_id: ..}}); correct the field",
                    document.collection
                )),
            StoreError::Fenced => error.to_string().into(),
        }
    }
}

/// Database with stencils, tangles and the lease. A write is durable when its call returns.
///
/// `fence` is the epoch of the writer's lease; an older one than the last holder's gets
/// [`StoreError::Fenced`]. `None` writes without a check.
pub(crate) trait Store {
    fn config_document(&self) -> impl Future<Output = Result<ConfigDocument, StoreError>>;

    /// Reads stencils in the order of (TCN, `_id`).
    fn list(
        &self,
        selection: Selection,
    ) -> impl Future<Output = Result<Vec<Result<Stencil, InvalidDocument>>, StoreError>>;

    /// Counts stencils, including invalid ones.
    fn count(&self, selection: Selection) -> impl Future<Output = Result<u64, StoreError>>;

    /// Reads the size and the greatest `_id` of a set.
    fn set_summary(&self, set: Set) -> impl Future<Output = Result<SetSummary, StoreError>>;

    /// Returns the `_id` at position `skip` of those in `set` from `from` on, or from the least one.
    fn page(
        &self,
        set: Set,
        from: Option<Id>,
        skip: u32,
    ) -> impl Future<Output = Result<Option<Id>, StoreError>>;

    /// Writes state and cursor of a stencil.
    fn update_stencil(
        &self,
        update: &StencilUpdate,
        fence: Option<u64>,
    ) -> impl Future<Output = Result<(), StoreError>>;

    /// Writes that TCN `to` is complete, with the record of its completion, if any. With a fence, the present
    /// value must be `from`.
    fn complete(
        &self,
        from: i64,
        to: i64,
        completion: Option<&Completion>,
        fence: Option<u64>,
    ) -> impl Future<Output = Result<(), StoreError>>;

    /// Reads the start of the latest TCN and the completions that are not delivered, in the order of
    /// completion.
    fn completion_state(&self) -> impl Future<Output = Result<CompletionState, StoreError>>;

    fn start_tcn(&self, start: TcnStart, fence: Option<u64>) -> impl Future<Output = Result<(), StoreError>>;

    /// Removes a completion that is delivered.
    fn remove_completion(
        &self,
        id: CompletionId,
        fence: Option<u64>,
    ) -> impl Future<Output = Result<(), StoreError>>;

    /// Reads the database's clock, in milliseconds since 1970, and the lease.
    fn lease(&self) -> impl Future<Output = Result<(i64, Option<Lease>), StoreError>>;

    /// Writes `lease` if the present one is `seen`. Returns whether it did.
    fn take(&self, seen: Option<&Lease>, lease: &Lease) -> impl Future<Output = Result<bool, StoreError>>;

    /// Sets the end of the lease of `epoch` to `ttl_ms` from now; 0 releases it. Returns whether the lease
    /// still exists.
    fn renew(&self, epoch: u64, ttl_ms: u64) -> impl Future<Output = Result<bool, StoreError>>;
}
