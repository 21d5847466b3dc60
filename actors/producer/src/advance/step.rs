//! Events and actions of the rules.

use crate::{
    cursor::{Census, Cursor},
    id::Id,
    reading::{Judgement, Reading},
    stencil::{Ledger, Misread, Selection, Set, State, Stencil},
};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The producer starts.
    Started,
    /// The lease was taken.
    Leased {
        /// Its epoch.
        epoch: u64,
    },
    /// Another producer has the lease.
    LeaseHeld,
    /// Another producer took the lease, or may have.
    LeaseLost,
    /// The configuration document.
    Ledger(Ledger),
    /// Stencils, each read or not.
    Listed(Vec<Result<Stencil, Misread>>),
    /// How many stencils.
    Counted(u64),
    /// What the queue's server says.
    Read(Reading),
    /// The sets of a stencil.
    Surveyed {
        /// Its rootstocks.
        roots: Census,
        /// Its scions.
        scions: Census,
    },
    /// What was to be written is durable.
    Written,
    /// All jobs of a stencil are acknowledged.
    Pushed {
        /// How many, in this push.
        jobs: u64,
        /// Where its cursor is, if it has one.
        cursor: Option<Cursor>,
    },
    /// A stencil has no jobs, since this set is empty.
    Empty(Set),
    /// A pause is over.
    Slept,
    /// Database or queue failed in between; only a strict producer hears of it, others wait until they are back.
    Failed,
}

/// What to do next. Each is answered with one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Take the lease: [`Event::Leased`] or [`Event::LeaseHeld`].
    TakeLease,
    /// Read the configuration document: [`Event::Ledger`].
    ReadLedger,
    /// Find stencils: [`Event::Listed`].
    List(Selection),
    /// Count stencils: [`Event::Counted`].
    CountStencils(Selection),
    /// Ask the queue's server: [`Event::Read`].
    ReadQueue,
    /// Look at a stencil's sets: [`Event::Surveyed`].
    Survey(Stencil),
    /// Write what became of a stencil: [`Event::Written`].
    Mark(Mark),
    /// Push a stencil's jobs, from its cursor on if it has one: [`Event::Pushed`] or [`Event::Empty`].
    Push(Stencil),
    /// Write that a TCN is complete: [`Event::Written`].
    Complete {
        /// What is written now.
        from: i64,
        /// What is to be written.
        to: i64,
    },
    /// Wait until the next tick: [`Event::Slept`].
    Sleep,
    /// All is done.
    Finish,
    /// Nothing more can be done before somebody acts.
    Halt(Halt),
}

/// What is to be written into a stencil.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Which.
    pub id: Id,
    /// Its state.
    pub state: State,
    /// Its cursor; None leaves it as it is.
    pub cursor: Option<Cursor>,
}

/// Why a producer cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// A document cannot be read.
    #[error(transparent)]
    Misread(#[from] Misread),
    /// The original dies of an empty set, and leaves the stencil in state 1.
    #[error(
        "{stencil} has no jobs: there are no {set}: insert some, set its state to 2, or leave compat = \"strict\""
    )]
    EmptySet {
        /// Its words.
        stencil: String,
        /// The set.
        set: Set,
    },
}

/// How the default judges and works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What of a reading counts.
    pub judgement: Judgement,
    /// Tangles of a page.
    pub page_size: u32,
    /// Does it end once `max_tcn` is complete? Else it waits for a greater one.
    pub until_done: bool,
}
