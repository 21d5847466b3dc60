//! The producer's rules as a state machine: each event has one action for an answer. No clock, no database, no queue.
//!
//! [`Strict`] is the original to the letter, with its flaws (contract A6, A7); [`Mended`] is the default.

mod mended;
mod strict;

use std::fmt;

pub use mended::{Mended, REGRAFTS_MAX};
pub use strict::Strict;

use crate::{
    cursor::{Census, Cursor},
    id::Id,
    reading::{Blocker, Judgement, Reading},
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

/// What people should hear once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A set is empty: the stencil is left for later.
    NoHeadroom {
        /// Which.
        stencil: String,
        /// What is empty.
        set: Set,
    },
    /// The set of a stencil without jobs has filled: it is taken up.
    Reopened(String),
    /// A document cannot be read; it blocks.
    Misread(Misread),
    /// Fewer jobs were done than pushed: the queue's server lost some. They are pushed again.
    Vanished {
        /// Jobs that were pushed.
        pushed: u64,
        /// Jobs that were done since, of any type.
        done: u64,
    },
    /// Tangles were inserted into, or deleted from, the sets of a stencil while its jobs were out: it is grafted again.
    Changed {
        /// Which.
        stencil: String,
        /// Is it given up, after several times?
        given_up: bool,
    },
    /// A TCN is complete.
    Completed(i64),
    /// The last TCN is complete.
    Finished(i64),
}

impl News {
    /// Should somebody look at it?
    pub fn is_trouble(&self) -> bool {
        !matches!(self, Self::Reopened(_) | Self::Completed(_) | Self::Finished(_))
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHeadroom { stencil, set } => {
                write!(f, "{stencil} has no jobs: there are no {set}; it is looked at again at every tick")
            }
            Self::Reopened(stencil) => write!(f, "{stencil} has jobs now"),
            Self::Misread(misread) => write!(f, "no TCN can be completed: {misread}"),
            Self::Vanished { pushed, done } => write!(
                f,
                "the queue's server lost jobs (flushed, or its data lost): {pushed} were pushed, {done} done; pushing them again"
            ),
            Self::Changed { stencil, given_up: false } => {
                write!(f, "{stencil}: its tangles changed while its jobs were out; grafting it again")
            }
            Self::Changed { stencil, given_up: true } => write!(
                f,
                "{stencil}: its tangles change again and again; some may not be grafted: set its state to 0 when they rest"
            ),
            Self::Completed(tcn) => write!(f, "TCN {tcn} is complete"),
            Self::Finished(tcn) => write!(f, "TCN {tcn} is complete, and the last: max_tcn is reached"),
        }
    }
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

/// What a machine is at, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Getting ready.
    Starting,
    /// Another producer works.
    Standby,
    /// Looking for work.
    Looking,
    /// Pushing a stencil's jobs.
    Pushing(String),
    /// Jobs or documents keep the TCN from being complete.
    Blocked {
        /// Jobs.
        jobs: Vec<Blocker>,
        /// Documents.
        documents: Vec<Misread>,
        /// Stencils that are open although nobody will push them (the original's flaw 7).
        stencils: u64,
    },
    /// `max_tcn` is complete.
    Finished,
}

/// The rules of either way.
#[derive(Debug, Clone)]
pub enum Machine {
    /// The original to the letter.
    Strict(Box<Strict>),
    /// The default.
    Mended(Box<Mended>),
}

impl Machine {
    /// The original's rules.
    pub fn strict(queue: impl Into<String>) -> Self {
        Self::Strict(Box::new(Strict::new(queue)))
    }

    /// The default's rules.
    pub fn mended(rules: Rules) -> Self {
        Self::Mended(Box::new(Mended::new(rules)))
    }

    /// What to do after `event`. An event that nobody waits for begins anew: that is always safe, since all that counts is
    /// in the database.
    pub fn on(&mut self, event: Event) -> Action {
        match self {
            Self::Strict(machine) => machine.on(event),
            Self::Mended(machine) => machine.on(event),
        }
    }

    /// The TCN whose stencils are worked on, once it is known.
    pub fn target(&self) -> Option<i64> {
        match self {
            Self::Strict(machine) => machine.target(),
            Self::Mended(machine) => machine.target(),
        }
    }

    /// What it is at.
    pub fn phase(&self) -> &Phase {
        match self {
            Self::Strict(machine) => machine.phase(),
            Self::Mended(machine) => machine.phase(),
        }
    }

    /// What people should hear since they were told last.
    pub fn news(&mut self) -> Vec<News> {
        match self {
            Self::Strict(_) => Vec::new(),
            Self::Mended(machine) => machine.news(),
        }
    }
}
