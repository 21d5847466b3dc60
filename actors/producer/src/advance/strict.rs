//! The original's rules to the letter (CONTRACT SO13), flaws included.

use std::collections::VecDeque;

use super::{
    report::Phase,
    step::{Action, Event, Halt, Mark},
};
use crate::{
    reading::{Count, Judgement, blockers},
    stencil::{Misread, Selection, State, Stencil},
};

/// What it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Waits {
    Ledger,
    /// The list of stencils to push.
    List,
    /// State 1 of this stencil.
    MarkStarted(Stencil),
    Push(Stencil),
    /// State 3.
    MarkComplete,
    Reading,
    /// The count of open stencils; may the TCN be complete by the reading?
    Count {
        drained: bool,
    },
    Completion,
    Slept,
}

/// The original: recovery with exactly the next TCN, rootstock 0 included; a TCN is complete by one reading; no end.
#[derive(Debug, Clone)]
pub struct Strict {
    judgement: Judgement,
    /// The completed TCN: read once, then kept.
    completed: Option<i64>,
    /// Stencils that are left of the list. An unreadable one is met only at its turn.
    work: VecDeque<Result<Stencil, Misread>>,
    /// Is the work that of the start? Then the first tick follows at once.
    recovering: bool,
    waits: Waits,
    phase: Phase,
}

impl Strict {
    pub(super) fn new(queue: impl Into<String>) -> Self {
        Self {
            judgement: Judgement { queue: queue.into(), count: Count::Queue, ignore_dead: false },
            completed: None,
            work: VecDeque::new(),
            recovering: true,
            waits: Waits::Ledger,
            phase: Phase::Starting,
        }
    }

    pub(super) fn target(&self) -> Option<i64> {
        Some(self.completed?.saturating_add(1))
    }

    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(super) fn on(&mut self, event: Event) -> Action {
        let waits = std::mem::replace(&mut self.waits, Waits::Ledger);
        match (waits, event) {
            (Waits::Ledger, Event::Ledger(ledger)) => {
                self.completed = Some(ledger.completed_tcn);
                self.list(Selection::Recovery { tcn: self.next_tcn() })
            }
            (Waits::List, Event::Listed(found)) => {
                self.work = found.into();
                self.take_up()
            }
            (Waits::MarkStarted(stencil), Event::Written) => {
                self.phase = Phase::Pushing(stencil.to_string());
                self.waits = Waits::Push(stencil.clone());
                Action::Push(stencil)
            }
            (Waits::Push(stencil), Event::Pushed { .. }) => {
                self.mark(Waits::MarkComplete, &stencil, State::Complete)
            }
            (Waits::Push(stencil), Event::Empty(set)) => {
                Action::Halt(Halt::EmptySet { stencil: stencil.to_string(), set })
            }
            (Waits::MarkComplete, Event::Written) => self.take_up(),
            (Waits::Reading, Event::Read(reading)) => {
                let jobs = blockers(&reading, &self.judgement);
                self.waits = Waits::Count { drained: jobs.is_empty() };
                self.phase = Phase::Blocked { jobs, documents: Vec::new(), stencils: 0 };
                Action::CountStencils(Selection::Open { tcn: self.next_tcn() })
            }
            (Waits::Count { drained: true }, Event::Counted(0)) => {
                let from = self.completed.unwrap_or_default();
                let to = self.next_tcn();
                self.completed = Some(to);
                self.waits = Waits::Completion;
                Action::Complete { from, to }
            }
            (Waits::Count { .. }, Event::Counted(open)) => {
                if let Phase::Blocked { stencils, .. } = &mut self.phase {
                    *stencils = open;
                }
                self.sleep()
            }
            (Waits::Completion, Event::Written) => {
                self.phase = Phase::Looking;
                self.list(Selection::Open { tcn: self.next_tcn() })
            }
            (Waits::Slept, Event::Slept) => self.read(),
            // The process ended and was started again.
            _ => {
                *self = Self::new(std::mem::take(&mut self.judgement.queue));
                Action::ReadLedger
            }
        }
    }

    fn next_tcn(&self) -> i64 {
        self.target().unwrap_or_default()
    }

    fn list(&mut self, selection: Selection) -> Action {
        self.waits = Waits::List;
        Action::List(selection)
    }

    fn take_up(&mut self) -> Action {
        match self.work.pop_front() {
            Some(Ok(stencil)) => self.mark(Waits::MarkStarted(stencil.clone()), &stencil, State::Started),
            Some(Err(misread)) => Action::Halt(misread.into()),
            None if self.recovering => {
                self.recovering = false;
                self.read()
            }
            None => {
                self.phase = Phase::Looking;
                self.sleep()
            }
        }
    }

    fn mark(&mut self, waits: Waits, stencil: &Stencil, state: State) -> Action {
        self.waits = waits;
        Action::Mark(Mark { id: stencil.id, state, cursor: None })
    }

    fn read(&mut self) -> Action {
        self.waits = Waits::Reading;
        Action::ReadQueue
    }

    fn sleep(&mut self) -> Action {
        self.waits = Waits::Slept;
        Action::Sleep
    }
}

#[cfg(test)]
mod tests;
