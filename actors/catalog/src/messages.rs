//! What other actors of the process may ask of a catalog's poller: both idioms of the original (spec §4, §5).
//!
//! Answers come through a channel of their own: what takes long does not keep the mailbox waiting.

use orchestrator_supervise::{Message, Recipient};
use tokio::sync::oneshot;

use crate::{
    config::RuleConfig,
    handling::{PlanRow, Row},
    state_change::Planned,
};

/// Why a conditional state change came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Somebody was faster (412): nothing was written. Ask again.
    #[error("something in the catalog has changed meanwhile: ask again")]
    Concurrent,
    /// Nothing was written.
    #[error("{0}")]
    Failed(String),
    /// The answer to the write is lost: it may have been done.
    #[error("it is not known whether it was written: {0}")]
    Unsettled(String),
}

/// What a conditional state change did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changed {
    /// What to give as `idle_etag` the next time. None if there may be more candidates than the query's limit let through.
    pub etag: Option<String>,
    /// Candidate and update of each row that was changed.
    pub plan: Vec<Planned>,
}

/// What becomes of a candidate; None drops it.
pub type PlanFunction = dyn FnMut(&Row) -> Option<Row> + Send;

/// Says what becomes of candidates.
pub enum Plan {
    /// A function.
    With(Box<PlanFunction>),
    /// An actor.
    Ask(Recipient<PlanRow>),
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::With(_) => "With",
            Self::Ask(_) => "Ask",
        })
    }
}

/// Looks for candidates, plans, and writes the plan unless anything in the catalog has changed meanwhile (spec §4).
#[derive(Debug)]
pub struct StateChangeOnce {
    /// The path of the query, e.g. `/entity/Foo/state=actionable?limit=5`.
    pub query: String,
    /// The path of the update, e.g. `/attributegroup/Foo/id;state`.
    pub update: String,
    /// What becomes of candidates.
    pub plan: Plan,
    /// Nothing is planned if the catalog still has this ETag.
    pub idle_etag: Option<String>,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Result<Changed, ChangeError>>,
}

impl Message for StateChangeOnce {
    type Result = ();
}

/// What a look for work found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Some, and there may be more: it is asked again at once.
    Work,
    /// None.
    Nothing,
    /// Somebody was faster: it is asked again.
    Concurrent,
}

/// Asks an actor to look for work. Dropped without an answer, it found nothing.
#[derive(Debug)]
pub struct LookForWork {
    /// Where the answer goes.
    pub answer: oneshot::Sender<Found>,
}

impl Message for LookForWork {
    type Result = ();
}

/// Asks `look_for_work` whenever there may be work (spec §5), until the poller ends or the actor is gone.
#[derive(Debug)]
pub struct BlockingPoll {
    /// Who looks.
    pub look_for_work: Recipient<LookForWork>,
}

impl Message for BlockingPoll {
    type Result = ();
}

/// Other rules: those that are as they were go on undisturbed.
#[derive(Debug, Clone)]
pub struct SetRules {
    /// All of them.
    pub rules: Vec<RuleConfig>,
}

impl Message for SetRules {
    type Result = ();
}
