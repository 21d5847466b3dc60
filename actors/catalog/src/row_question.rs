//! Questions of the console about one row, and the answers of agents. No I/O.

use std::sync::Arc;

use orchestrator_catalog_rules::{outcome_kind::OutcomeKind, rows::Row};
use tokio::sync::mpsc;

/// Question to each agent of a rule. It ends when all of them have answered or are gone.
#[derive(Debug, Clone)]
pub(crate) struct RowQuestion {
    /// Text of the value of the rule's key column.
    pub(crate) key: Arc<str>,
    pub(crate) reply: mpsc::UnboundedSender<RuleView>,
}

/// Knowledge of an agent. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleView {
    /// The row, if this agent has claimed it.
    pub(crate) held: Option<HeldRow>,
    /// A claim of the row has no answer: time at which the row is read.
    pub(crate) unconfirmed: Option<u64>,
    /// Failed attempts in a row, and the end of the delay after them.
    pub(crate) deferred: Option<(u32, u64)>,
    /// Next read of candidates; None while none is planned.
    pub(crate) next_poll: Option<u64>,
    /// Change notices make the rule poll sooner.
    pub(crate) notices_up: bool,
    /// Keys of the rows whose handlers run, at most [`RUNNING_MAX`], with the times of their claims.
    pub(crate) running: Vec<(String, u64)>,
    /// Number of rows whose handlers run.
    pub(crate) working: usize,
    /// Reason why the rule reads nothing.
    pub(crate) reason: Option<String>,
}

/// Rows that are named as running.
pub(crate) const RUNNING_MAX: usize = 3;

/// A row that the agent has claimed.
#[derive(Debug, Clone)]
pub(crate) struct HeldRow {
    pub(crate) stage: RowStage,
    /// As it was before the claim.
    pub(crate) row: Row,
    pub(crate) token: String,
    pub(crate) attempt: Option<u32>,
    pub(crate) claimed_at: u64,
    pub(crate) lease_until: Option<u64>,
}

/// Progress of a claimed row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowStage {
    /// It waits for a handler.
    Pending,
    /// Its handler runs.
    Running,
    /// Its outcome is being written. With `is_unknown`, a write had no answer, so the row is read first.
    Settling { outcome: OutcomeKind, is_unknown: bool },
}
