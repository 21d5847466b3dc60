//! State machines of the producer: each event returns the next action. They use no clock, database or queue.
//!
//! [`Strict`] has exactly the original's rules (CONTRACT SO13, SX01 to SX14); [`Resilient`] is the default.

mod report;
mod resilient;
mod step;
mod strict;

use std::collections::BTreeSet;

pub use self::{
    report::{Notice, Phase},
    resilient::Resilient,
    step::{Action, Event, Halt, Rules, StencilUpdate},
    strict::Strict,
};

/// State machine of either mode.
#[derive(Debug, Clone)]
pub enum Machine {
    /// Exactly the original's rules.
    Strict(Box<Strict>),
    /// Default rules.
    Resilient(Box<Resilient>),
}

impl Machine {
    /// The original's rules. `queues` are the producer's own.
    pub fn strict(queues: BTreeSet<String>) -> Self {
        Self::Strict(Box::new(Strict::new(queues)))
    }

    /// The default rules.
    pub fn resilient(rules: Rules) -> Self {
        Self::Resilient(Box::new(Resilient::new(rules)))
    }

    /// An unexpected event starts over, which is safe because the database has all durable state.
    pub fn on(&mut self, event: Event) -> Action {
        match self {
            Self::Strict(machine) => machine.on(event),
            Self::Resilient(machine) => machine.on(event),
        }
    }

    /// TCN whose stencils are processed, once it is known.
    pub fn target(&self) -> Option<i64> {
        match self {
            Self::Strict(machine) => machine.target(),
            Self::Resilient(machine) => machine.target(),
        }
    }

    /// Progress that operators see.
    pub fn phase(&self) -> &Phase {
        match self {
            Self::Strict(machine) => machine.phase(),
            Self::Resilient(machine) => machine.phase(),
        }
    }

    /// Listed stencils whose turn has not come.
    pub fn waiting_stencils(&self) -> usize {
        match self {
            Self::Strict(machine) => machine.waiting_stencils(),
            Self::Resilient(machine) => machine.waiting_stencils(),
        }
    }

    /// Removes and returns the notices since the last call.
    pub fn notices(&mut self) -> Vec<Notice> {
        match self {
            Self::Strict(_) => Vec::new(),
            Self::Resilient(machine) => machine.notices(),
        }
    }
}
