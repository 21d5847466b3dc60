//! Stencils: which tangles are grafted onto which (CONTRACT SD02), their states, and which of them a question is about.

use std::fmt;

use crate::{cursor::Cursor, id::Id};

/// What became of a stencil, as the database has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// 0: nothing was done yet.
    New,
    /// 1: some of its jobs may be pushed.
    Started,
    /// 2: it has no jobs at present, since one of its sets is empty. The original skips it for good.
    NoHeadroom,
    /// 3: all of its jobs are pushed.
    Complete,
    /// A number that has no meaning. The original treats it as 0 in its loop and never recovers it.
    Other(i64),
}

impl State {
    /// The number in the database.
    pub fn number(self) -> i64 {
        match self {
            Self::New => 0,
            Self::Started => 1,
            Self::NoHeadroom => 2,
            Self::Complete => 3,
            Self::Other(number) => number,
        }
    }
}

impl From<i64> for State {
    fn from(number: i64) -> Self {
        match number {
            0 => Self::New,
            1 => Self::Started,
            2 => Self::NoHeadroom,
            3 => Self::Complete,
            other => Self::Other(other),
        }
    }
}

/// An ordered pair of crossing numbers whose tangles are grafted, all with all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stencil {
    /// Its document.
    pub id: Id,
    /// Its target: the sum of the two. Only used to choose stencils.
    pub tcn: i64,
    /// Crossings of the tangles that are grafted onto.
    pub rootstock_tcn: i64,
    /// Crossings of the tangles that are grafted.
    pub scion_tcn: i64,
    /// What became of it.
    pub state: State,
    /// How far it came. The original has none and takes no notice of it.
    pub cursor: Option<Cursor>,
}

impl Stencil {
    /// What is grafted onto.
    pub fn roots(&self) -> Set {
        Set::Rootstock { tcn: self.rootstock_tcn }
    }

    /// What is grafted.
    pub fn scions(&self) -> Set {
        Set::Scion { tcn: self.scion_tcn }
    }
}

impl fmt::Display for Stencil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stencil {} (TCN {} = {} + {})", self.id, self.tcn, self.rootstock_tcn, self.scion_tcn)
    }
}

/// A set of tangles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Set {
    /// All with so many crossings.
    Rootstock {
        /// Crossings.
        tcn: i64,
    },
    /// The good ones with so many crossings.
    Scion {
        /// Crossings.
        tcn: i64,
    },
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rootstock { tcn } => write!(f, "tangles with TCN {tcn}"),
            Self::Scion { tcn } => write!(f, "good tangles with TCN {tcn}"),
        }
    }
}

/// The configuration document: which TCNs are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    /// The greatest TCN whose jobs are all done.
    pub completed_tcn: i64,
    /// The TCN to end with. The original reads it and goes on.
    pub max_tcn: i64,
}

/// Which stencils a question is about. Answers are in the order of (TCN, `_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// What the original looks at when it starts: new or started, with exactly this TCN.
    Recovery {
        /// The TCN.
        tcn: i64,
    },
    /// What the original looks at in its loop: neither complete nor without headroom, up to this TCN, rootstock not 0.
    Open {
        /// The TCN.
        tcn: i64,
    },
    /// What there may be something to do for: not complete, up to this TCN, rootstock not 0.
    Unfinished {
        /// The TCN.
        tcn: i64,
    },
    /// What is complete with exactly this TCN, rootstock not 0.
    Complete {
        /// The TCN.
        tcn: i64,
    },
    /// All there are.
    All,
}

impl Selection {
    /// Is `stencil` one of them?
    pub fn takes(self, stencil: &Stencil) -> bool {
        let Stencil { tcn: its, state, .. } = *stencil;
        let grows = stencil.rootstock_tcn != 0;
        match self {
            Self::Recovery { tcn } => its == tcn && matches!(state, State::New | State::Started),
            Self::Open { tcn } => {
                its <= tcn && grows && !matches!(state, State::Complete | State::NoHeadroom)
            }
            Self::Unfinished { tcn } => its <= tcn && grows && state != State::Complete,
            Self::Complete { tcn } => its == tcn && grows && state == State::Complete,
            Self::All => true,
        }
    }
}

/// A document that cannot be read: which, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "collection {collection}, document {id}: field {field} is {found}, {wanted} is needed: correct the document"
)]
pub struct Misread {
    /// The collection.
    pub collection: String,
    /// The document's `_id`, as text.
    pub id: String,
    /// The field.
    pub field: &'static str,
    /// What is there.
    pub found: String,
    /// What should be there.
    pub wanted: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stencil(tcn: i64, rootstock_tcn: i64, state: i64) -> Stencil {
        let scion_tcn = tcn - rootstock_tcn;
        Stencil { id: Id([7; 12]), tcn, rootstock_tcn, scion_tcn, state: state.into(), cursor: None }
    }

    #[test]
    fn states_have_the_numbers_of_the_contract() {
        for number in -1..6 {
            assert_eq!(State::from(number).number(), number);
        }
        assert_eq!(
            [State::New, State::Started, State::NoHeadroom, State::Complete].map(State::number),
            [0, 1, 2, 3]
        );
    }

    /// One line for each condition of a selection: TCN, rootstock, state; then whether recovery, open, unfinished, complete
    /// at TCN 5 take it.
    #[test]
    fn a_selection_takes_what_the_contract_says() {
        for (tcn, root, state, taken) in [
            (5, 2, 0, [true, true, true, false]),
            (5, 2, 1, [true, true, true, false]),
            (5, 2, 2, [false, false, true, false]),
            (5, 2, 3, [false, false, false, true]),
            (5, 2, 9, [false, true, true, false]),
            (5, 0, 0, [true, false, false, false]),
            (5, 0, 3, [false, false, false, false]),
            (4, 2, 0, [false, true, true, false]),
            (4, 2, 3, [false, false, false, false]),
            (6, 2, 0, [false, false, false, false]),
        ] {
            let stencil = stencil(tcn, root, state);
            let all = [
                Selection::Recovery { tcn: 5 },
                Selection::Open { tcn: 5 },
                Selection::Unfinished { tcn: 5 },
                Selection::Complete { tcn: 5 },
            ];
            assert_eq!(all.map(|selection| selection.takes(&stencil)), taken, "{stencil} {state}");
            assert!(Selection::All.takes(&stencil));
        }
    }

    #[test]
    fn sets_and_stencils_are_told_in_words() {
        let stencil = stencil(5, 2, 0);
        assert_eq!(stencil.to_string(), "stencil 070707070707070707070707 (TCN 5 = 2 + 3)");
        assert_eq!(stencil.roots().to_string(), "tangles with TCN 2");
        assert_eq!(stencil.scions().to_string(), "good tangles with TCN 3");
    }
}
