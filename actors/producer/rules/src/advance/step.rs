//! Events and actions of the state machines.

use crate::{
    cursor::{Cursor, SetSummary},
    id::Id,
    queue_state::{CompletionCriteria, QueueState},
    stencil::{ConfigDocument, InvalidDocument, Selection, Set, State, Stencil},
};

/// Result of an action, or what has happened meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The producer has started.
    Started,
    /// This producer has taken the lease.
    Leased {
        /// Epoch of the lease.
        epoch: u64,
    },
    /// Another producer has the lease.
    LeaseHeld,
    /// This producer may have lost its lease.
    LeaseLost,
    /// The configuration document was read.
    ConfigRead(ConfigDocument),
    /// Stencils were read.
    Listed(Vec<Result<Stencil, InvalidDocument>>),
    /// Stencils were counted.
    Counted(u64),
    /// Lengths of queues and sets were read.
    QueueRead(QueueState),
    /// The sets of a stencil were summarized.
    SetsSummarized {
        /// Summary of the rootstocks.
        roots: SetSummary,
        /// Summary of the scions.
        scions: SetSummary,
    },
    /// A write is durable.
    Written,
    /// All jobs of a stencil are acknowledged.
    Pushed {
        /// Jobs of this run.
        jobs: u64,
        /// Final cursor, in the default mode.
        cursor: Option<Cursor>,
    },
    /// A stencil has no jobs because this set is empty.
    Empty(Set),
    /// A tick has ended.
    Slept,
    /// Database or queue failed. Only strict mode has this event; by default the executor retries.
    Failed,
}

/// Action of the executor. Each has one event as its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Takes the lease: [`Event::Leased`] or [`Event::LeaseHeld`].
    TakeLease,
    /// Reads the configuration document: [`Event::ConfigRead`].
    ReadConfig,
    /// Reads stencils: [`Event::Listed`].
    List(Selection),
    /// Counts stencils: [`Event::Counted`].
    CountStencils(Selection),
    /// Reads lengths of queues and sets: [`Event::QueueRead`].
    ReadQueue,
    /// Summarizes a stencil's sets: [`Event::SetsSummarized`].
    SummarizeSets(Stencil),
    /// Writes state and cursor of a stencil: [`Event::Written`].
    UpdateStencil(StencilUpdate),
    /// Pushes a stencil's jobs, from its cursor on: [`Event::Pushed`] or [`Event::Empty`].
    Push(Stencil),
    /// Writes that a TCN is complete: [`Event::Written`].
    Complete {
        /// Present value.
        from: i64,
        /// New value.
        to: i64,
    },
    /// Waits until the next tick: [`Event::Slept`].
    Sleep,
    /// Ends the producer, with everything done.
    Finish,
    /// Ends the producer until an operator acts.
    Halt(Halt),
}

/// Write to a stencil.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StencilUpdate {
    /// The stencil.
    pub id: Id,
    /// Its new state.
    pub state: State,
    /// New cursor; `None` leaves the present one.
    pub cursor: Option<Cursor>,
}

/// Reason why the producer ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    #[error(transparent)]
    /// A document has to be corrected.
    InvalidDocument(#[from] InvalidDocument),
    /// A set is empty. The original exits here and leaves the stencil in state 1.
    #[error(
        "{stencil} has no jobs: there are no {set}: insert some, set its state to 2, or leave compat = \"strict\""
    )]
    EmptySet {
        /// Name of the stencil.
        stencil: String,
        /// Empty set.
        set: Set,
    },
}

/// Parameters of the default rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Jobs that keep a TCN from being complete.
    pub criteria: CompletionCriteria,
    /// Tangles of a page.
    pub page_size: u32,
    /// True to end once `max_tcn` is complete, instead of waiting for a greater one.
    pub until_done: bool,
}
