//! Exactly the original's rules, with its flaws (CONTRACT SO13).

use std::collections::{BTreeSet, VecDeque};

use super::{
    report::Phase,
    step::{Action, Event, Halt, StencilUpdate},
};
use crate::{
    queue_state::{CompletionCriteria, CountedQueues, blockers},
    stencil::{InvalidDocument, Selection, State, Stencil},
};

/// Event that the machine waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AwaitedEvent {
    Config,
    /// List of the stencils to push.
    StencilList,
    /// Write of state 1.
    StartedWritten(Stencil),
    Push(Stencil),
    /// Write of state 3.
    CompleteWritten,
    QueueState,
    /// Count of open stencils. `drained` is true if the last reading had no jobs.
    OpenCount {
        drained: bool,
    },
    CompletionWritten,
    NextTick,
}

/// State machine of the original. It recovers exactly the next TCN, completes a TCN after one reading, and
/// never ends.
#[derive(Debug, Clone)]
pub struct Strict {
    criteria: CompletionCriteria,
    /// Completed TCN, read once at the start.
    completed: Option<i64>,
    /// Stencils left to push. An invalid one ends the producer when its turn comes.
    pending: VecDeque<Result<Stencil, InvalidDocument>>,
    /// True during the recovery at the start, which is followed by a tick without a delay.
    recovering: bool,
    awaiting: AwaitedEvent,
    phase: Phase,
}

impl Strict {
    pub(super) fn new(queues: BTreeSet<String>) -> Self {
        Self {
            criteria: CompletionCriteria { queues, count: CountedQueues::Queue, ignore_dead: false },
            completed: None,
            pending: VecDeque::new(),
            recovering: true,
            awaiting: AwaitedEvent::Config,
            phase: Phase::Starting,
        }
    }

    pub(super) fn target(&self) -> Option<i64> {
        Some(self.completed?.saturating_add(1))
    }

    pub(super) fn waiting_stencils(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(super) fn on(&mut self, event: Event) -> Action {
        let awaiting = std::mem::replace(&mut self.awaiting, AwaitedEvent::Config);
        match (awaiting, event) {
            (AwaitedEvent::Config, Event::ConfigRead(config)) => {
                self.completed = Some(config.completed_tcn);
                self.list(Selection::Recovery { tcn: self.next_tcn() })
            }
            (AwaitedEvent::StencilList, Event::Listed(found)) => {
                self.pending = found.into();
                self.next_stencil()
            }
            (AwaitedEvent::StartedWritten(stencil), Event::Written) => {
                self.phase = Phase::Pushing(stencil.to_string());
                self.awaiting = AwaitedEvent::Push(stencil.clone());
                Action::Push(stencil)
            }
            (AwaitedEvent::Push(stencil), Event::Pushed { .. }) => {
                self.update_stencil(AwaitedEvent::CompleteWritten, &stencil, State::Complete)
            }
            (AwaitedEvent::Push(stencil), Event::Empty(set)) => {
                Action::Halt(Halt::EmptySet { stencil: stencil.to_string(), set })
            }
            (AwaitedEvent::CompleteWritten, Event::Written) => self.next_stencil(),
            (AwaitedEvent::QueueState, Event::QueueRead(queue_state)) => {
                let jobs = blockers(&queue_state, &self.criteria);
                self.awaiting = AwaitedEvent::OpenCount { drained: jobs.is_empty() };
                self.phase = match jobs.is_empty() {
                    true => Phase::Completing,
                    false => Phase::Blocked { jobs, documents: Vec::new(), stencils: 0 },
                };
                Action::CountStencils(Selection::Open { tcn: self.next_tcn() })
            }
            (AwaitedEvent::OpenCount { drained: true }, Event::Counted(0)) => {
                let from = self.completed.unwrap_or_default();
                let to = self.next_tcn();
                self.completed = Some(to);
                self.awaiting = AwaitedEvent::CompletionWritten;
                Action::Complete { from, to }
            }
            (AwaitedEvent::OpenCount { .. }, Event::Counted(open)) => {
                match &mut self.phase {
                    Phase::Blocked { stencils, .. } => *stencils = open,
                    phase => {
                        *phase = Phase::Blocked { jobs: Vec::new(), documents: Vec::new(), stencils: open };
                    }
                }
                self.sleep()
            }
            (AwaitedEvent::CompletionWritten, Event::Written) => {
                self.phase = Phase::Checking;
                self.list(Selection::Open { tcn: self.next_tcn() })
            }
            (AwaitedEvent::NextTick, Event::Slept) => self.read(),
            // The original exits and is started again.
            _ => {
                *self = Self::new(std::mem::take(&mut self.criteria.queues));
                Action::ReadConfig
            }
        }
    }

    fn next_tcn(&self) -> i64 {
        self.target().unwrap_or_default()
    }

    fn list(&mut self, selection: Selection) -> Action {
        self.awaiting = AwaitedEvent::StencilList;
        Action::List(selection)
    }

    fn next_stencil(&mut self) -> Action {
        match self.pending.pop_front() {
            Some(Ok(stencil)) => {
                self.update_stencil(AwaitedEvent::StartedWritten(stencil.clone()), &stencil, State::Started)
            }
            Some(Err(invalid)) => Action::Halt(invalid.into()),
            None if self.recovering => {
                self.recovering = false;
                self.read()
            }
            None => {
                self.phase = Phase::Checking;
                self.sleep()
            }
        }
    }

    fn update_stencil(&mut self, awaiting: AwaitedEvent, stencil: &Stencil, state: State) -> Action {
        self.awaiting = awaiting;
        Action::UpdateStencil(StencilUpdate { id: stencil.id, state, cursor: None })
    }

    fn read(&mut self) -> Action {
        self.awaiting = AwaitedEvent::QueueState;
        Action::ReadQueue
    }

    fn sleep(&mut self) -> Action {
        self.awaiting = AwaitedEvent::NextTick;
        Action::Sleep
    }
}

#[cfg(test)]
mod tests;
