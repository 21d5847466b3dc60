//! Stencils, their states, and selections of stencils (CONTRACT SD02, SD03).

use std::fmt;

use crate::{cursor::Cursor, id::Id};

/// State of a stencil in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// 0: not started.
    New,
    /// 1: some of its jobs may be pushed.
    Started,
    /// 2: without jobs, because one of its sets is empty. The original never pushes it.
    NoHeadroom,
    /// 3: all of its jobs are pushed.
    Complete,
    /// Undefined number. The original treats it as 0 in its loop and ignores it at its start.
    Other(i64),
}

impl State {
    /// Number in the database.
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

/// Pair of crossing numbers. All tangles of one number are grafted onto all of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stencil {
    /// Identifier of the document.
    pub id: Id,
    /// Sum of both crossing numbers, which selects the stencil.
    pub tcn: i64,
    /// Crossings of the rootstocks, the tangles that are grafted onto.
    pub rootstock_tcn: i64,
    /// Crossings of the scions, the tangles that are grafted.
    pub scion_tcn: i64,
    /// State in the document.
    pub state: State,
    /// Progress, which the original ignores.
    pub cursor: Option<Cursor>,
}

impl Stencil {
    /// Tangles that are grafted onto.
    pub fn roots(&self) -> Set {
        Set::Rootstock { tcn: self.rootstock_tcn }
    }

    /// Tangles that are grafted.
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
    /// All tangles with this number of crossings.
    Rootstock {
        /// Crossings.
        tcn: i64,
    },
    /// Good tangles with this number of crossings.
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

/// Document that the producers of one database share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigDocument {
    /// Greatest TCN whose jobs are all done.
    pub completed_tcn: i64,
    /// Last TCN. The original ignores it.
    pub max_tcn: i64,
}

/// Selection of stencils, in the order of (TCN, `_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// Stencils at the original's start: new or started, with exactly this TCN.
    Recovery {
        /// The TCN.
        tcn: i64,
    },
    /// Stencils in the original's loop: neither complete nor without jobs, up to this TCN, rootstock not 0.
    Open {
        /// The TCN.
        tcn: i64,
    },
    /// Stencils of the default: not complete, up to this TCN, rootstock not 0.
    Unfinished {
        /// The TCN.
        tcn: i64,
    },
    /// Complete stencils with exactly this TCN, rootstock not 0.
    Complete {
        /// The TCN.
        tcn: i64,
    },
    /// Stencils that the default leaves out: not complete, up to this TCN, rootstock 0.
    LeftOut {
        /// The TCN.
        tcn: i64,
    },
    /// All stencils.
    All,
}

impl Selection {
    /// True if the selection has the stencil. A database selects by queries of its own, which tests compare
    /// with this.
    pub fn selects(self, stencil: &Stencil) -> bool {
        let Stencil { tcn: its, state, .. } = *stencil;
        let grows = stencil.rootstock_tcn != 0;
        match self {
            Self::Recovery { tcn } => its == tcn && matches!(state, State::New | State::Started),
            Self::Open { tcn } => {
                its <= tcn && grows && !matches!(state, State::Complete | State::NoHeadroom)
            }
            Self::Unfinished { tcn } => its <= tcn && grows && state != State::Complete,
            Self::Complete { tcn } => its == tcn && grows && state == State::Complete,
            Self::LeftOut { tcn } => its <= tcn && !grows && state != State::Complete,
            Self::All => true,
        }
    }
}

/// Document with a field that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "collection {collection}, document {id}: field {field} is {found} instead of {wanted}: correct the document"
)]
pub struct InvalidDocument {
    /// Collection of the document.
    pub collection: String,
    /// `_id` of the document, as text.
    pub id: String,
    /// Invalid field.
    pub field: &'static str,
    /// Present value.
    pub found: String,
    /// Required value.
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
    fn states_have_the_contracts_numbers() {
        for number in -1..6 {
            assert_eq!(State::from(number).number(), number);
        }
        assert_eq!(
            [State::New, State::Started, State::NoHeadroom, State::Complete].map(State::number),
            [0, 1, 2, 3]
        );
    }

    /// Each row has TCN, rootstock and state, then whether recovery, open, unfinished and complete at TCN 5
    /// select it.
    #[test]
    fn selections_follow_the_contract() {
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
            assert_eq!(all.map(|selection| selection.selects(&stencil)), taken, "{stencil} {state}");
            assert!(Selection::All.selects(&stencil));
        }
    }

    #[test]
    fn sets_and_stencils_have_names() {
        let stencil = stencil(5, 2, 0);
        assert_eq!(stencil.to_string(), "stencil 070707070707070707070707 (TCN 5 = 2 + 3)");
        assert_eq!(stencil.roots().to_string(), "tangles with TCN 2");
        assert_eq!(stencil.scions().to_string(), "good tangles with TCN 3");
    }
}
