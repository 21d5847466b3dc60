//! The producer's rules as a state machine: each event has one action for an answer. No clock, no database, no queue.
//!
//! [`Strict`] is the original to the letter, with its flaws (CONTRACT SO13, SX01 to SX14); [`Mended`] is the default.

mod mended;
mod report;
mod step;
mod strict;

pub use self::{
    mended::{Mended, REGRAFTS_MAX},
    report::{News, Phase},
    step::{Action, Event, Halt, Mark, Rules},
    strict::Strict,
};

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
