//! Default rules, without the flaws of the original (CONTRACT SX01 to SX14).

mod loss_detector;

use std::collections::{HashMap, VecDeque};

use super::{
    report::{Notice, Phase},
    step::{Action, Event, Rules, StencilUpdate},
};
use crate::{
    cursor::{Cursor, SetSummary},
    id::Id,
    queue_state::{Blocker, QueueState, blockers},
    stencil::{ConfigDocument, InvalidDocument, Selection, State, Stencil},
};
use loss_detector::LossDetector;

/// Times that a stencil is pushed again because its sets changed (CONTRACT SO10).
pub(super) const REPUSHES_MAX: u32 = 5;
/// Consecutive readings without jobs before a TCN is complete. During one reading, a job can be between its
/// queue and the set of working jobs.
const IDLE_READINGS_MIN: u8 = 2;

/// Event that the machine waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Awaiting {
    Lease,
    /// End of another producer's lease.
    Standby,
    Config,
    QueueState,
    StencilList(Purpose),
    SetSummaries(Purpose, Stencil),
    StartedWritten(Purpose, Stencil),
    Push(Purpose, Stencil),
    /// End of the work on a stencil.
    StencilWritten(Purpose),
    CompletionWritten,
    NextTick,
}

/// Reason why stencils are processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// They are not complete.
    Push,
    /// Their sets may have changed since they were pushed.
    Audit,
    /// Their jobs were lost.
    Repush,
}

/// State machine of the default rules. Stencils have cursors, and a TCN is complete after two readings of the
/// queue. The machine ends at `max_tcn`, and reports lost jobs and changed sets.
#[derive(Debug, Clone)]
pub struct Resilient {
    rules: Rules,
    epoch: u64,
    config: Option<ConfigDocument>,
    losses: LossDetector,
    pending: VecDeque<Stencil>,
    /// Jobs that block the TCN, by this tick's reading.
    jobs: Vec<Blocker>,
    documents: Vec<InvalidDocument>,
    /// Stencils of other TCNs that were pushed since a TCN was completed. They are audited with the next one.
    other_tcns: Vec<Stencil>,
    /// Number of times that a stencil's sets had changed.
    repushes: HashMap<Id, u32>,
    /// True if this tick has pushed jobs, so its reading is outdated.
    pushed: bool,
    idle_readings: u8,
    awaiting: Awaiting,
    phase: Phase,
    notices: Vec<Notice>,
}

impl Resilient {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            epoch: 0,
            config: None,
            losses: LossDetector::default(),
            pending: VecDeque::new(),
            jobs: Vec::new(),
            documents: Vec::new(),
            other_tcns: Vec::new(),
            repushes: HashMap::new(),
            pushed: false,
            idle_readings: 0,
            awaiting: Awaiting::Lease,
            phase: Phase::Starting,
            notices: Vec::new(),
        }
    }

    pub(super) fn target(&self) -> Option<i64> {
        let config = self.config?;
        Some(config.completed_tcn.saturating_add(1).min(config.max_tcn))
    }

    pub(super) fn waiting_stencils(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(super) fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    pub(super) fn on(&mut self, event: Event) -> Action {
        let awaiting = std::mem::replace(&mut self.awaiting, Awaiting::Lease);
        match (awaiting, event) {
            (Awaiting::Lease, Event::Leased { epoch }) => {
                self.epoch = epoch;
                self.phase = Phase::Checking;
                self.tick()
            }
            (Awaiting::Lease, Event::LeaseHeld) => {
                self.phase = Phase::Standby;
                self.sleep(Awaiting::Standby)
            }
            (Awaiting::Config, Event::ConfigRead(config)) => {
                self.config = Some(config);
                self.awaiting = Awaiting::QueueState;
                Action::ReadQueue
            }
            (Awaiting::QueueState, Event::QueueRead(queue_state)) => self.queue_state(&queue_state),
            (Awaiting::StencilList(purpose), Event::Listed(found)) => self.listed(purpose, found),
            (Awaiting::SetSummaries(purpose, stencil), Event::SetsSummarized { roots, scions }) => {
                self.sets_summarized(purpose, stencil, roots, scions)
            }
            (Awaiting::StartedWritten(purpose, stencil), Event::Written) => {
                self.phase = Phase::Pushing(stencil.to_string());
                self.awaiting = Awaiting::Push(purpose, stencil.clone());
                Action::Push(stencil)
            }
            (Awaiting::Push(purpose, stencil), Event::Pushed { jobs, cursor }) => {
                self.losses.pushed(jobs);
                self.update_stencil(Awaiting::StencilWritten(purpose), &stencil, State::Complete, cursor)
            }
            (Awaiting::Push(purpose, stencil), Event::Empty(set)) => {
                self.notices.push(Notice::NoHeadroom { stencil: stencil.to_string(), set });
                self.update_stencil(Awaiting::StencilWritten(purpose), &stencil, State::NoHeadroom, None)
            }
            (Awaiting::StencilWritten(purpose), Event::Written) => self.next_stencil(purpose),
            (Awaiting::CompletionWritten, Event::Written) => {
                self.notices.extend(self.target().map(Notice::Completed));
                self.other_tcns.clear();
                self.repushes.clear();
                self.losses = LossDetector::default();
                self.tick()
            }
            (Awaiting::NextTick, Event::Slept) => self.tick(),
            // A start, a failure, a lost lease, or the end of standby.
            _ => self.start_over(),
        }
    }

    fn start_over(&mut self) -> Action {
        let notices = std::mem::take(&mut self.notices);
        let phase = if self.phase == Phase::Standby { Phase::Standby } else { Phase::Starting };
        *self = Self { notices, phase, ..Self::new(self.rules.clone()) };
        Action::TakeLease
    }

    fn tick(&mut self) -> Action {
        self.pushed = false;
        self.awaiting = Awaiting::Config;
        Action::ReadConfig
    }

    fn queue_state(&mut self, queue_state: &QueueState) -> Action {
        self.losses.read(queue_state.processed);
        self.jobs = blockers(queue_state, &self.rules.criteria);
        let tcn = self.target().unwrap_or_default();
        self.list(Purpose::Push, Selection::Unfinished { tcn })
    }

    fn list(&mut self, purpose: Purpose, selection: Selection) -> Action {
        self.awaiting = Awaiting::StencilList(purpose);
        Action::List(selection)
    }

    fn listed(&mut self, purpose: Purpose, found: Vec<Result<Stencil, InvalidDocument>>) -> Action {
        self.pending.clear();
        let mut documents = Vec::new();
        for stencil in found {
            match stencil {
                Ok(stencil) => self.pending.push_back(stencil),
                Err(invalid) => documents.push(invalid),
            }
        }
        if purpose == Purpose::Push {
            let new = documents.iter().filter(|invalid| !self.documents.contains(invalid));
            self.notices.extend(new.cloned().map(Notice::InvalidDocument));
            self.documents = documents;
        } else {
            self.pending.extend(self.other_tcns.iter().cloned());
        }
        self.next_stencil(purpose)
    }

    fn next_stencil(&mut self, purpose: Purpose) -> Action {
        let Some(stencil) = self.pending.pop_front() else {
            return match purpose {
                Purpose::Push => self.check_completion(),
                Purpose::Audit if !self.pushed => self.complete(),
                Purpose::Audit | Purpose::Repush => self.blocked(),
            };
        };
        self.awaiting = Awaiting::SetSummaries(purpose, stencil.clone());
        Action::SummarizeSets(stencil)
    }

    fn sets_summarized(
        &mut self,
        purpose: Purpose,
        stencil: Stencil,
        roots: SetSummary,
        scions: SetSummary,
    ) -> Action {
        let (page_size, epoch) = (self.rules.page_size, self.epoch);
        let restarted = |cursor: Cursor| cursor.restarted(page_size, roots, scions, epoch);
        let cursor = match (purpose, stencil.cursor) {
            // Stencils pushed by the original have no summary of their sets.
            (Purpose::Audit, None) => return self.next_stencil(purpose),
            (Purpose::Audit, Some(cursor)) => {
                if cursor.matches(roots, scions) {
                    return self.next_stencil(purpose);
                }
                let times = self.repushes.entry(stencil.id).or_default();
                *times += 1;
                let given_up = *times > REPUSHES_MAX;
                self.notices.push(Notice::SetsChanged { stencil: stencil.to_string(), given_up });
                if given_up {
                    return self.next_stencil(purpose);
                }
                restarted(cursor)
            }
            (Purpose::Push, Some(cursor)) if stencil.state == State::Started => cursor.resumed(epoch),
            (Purpose::Push | Purpose::Repush, Some(cursor)) => restarted(cursor),
            (Purpose::Push | Purpose::Repush, None) => Cursor::start(page_size, roots, scions, epoch),
        };
        let empty = [(stencil.roots(), roots), (stencil.scions(), scions)];
        if let Some((set, _)) = empty.into_iter().find(|(_, summary)| summary.count == 0) {
            if stencil.state == State::NoHeadroom {
                return self.next_stencil(purpose);
            }
            self.notices.push(Notice::NoHeadroom { stencil: stencil.to_string(), set });
            return self.update_stencil(Awaiting::StencilWritten(purpose), &stencil, State::NoHeadroom, None);
        }
        if stencil.state == State::NoHeadroom {
            self.notices.push(Notice::Reopened(stencil.to_string()));
        }
        self.pushed = true;
        let stencil = Stencil { state: State::Started, cursor: Some(cursor), ..stencil };
        self.update_stencil(
            Awaiting::StartedWritten(purpose, stencil.clone()),
            &stencil,
            State::Started,
            Some(cursor),
        )
    }

    fn update_stencil(
        &mut self,
        awaiting: Awaiting,
        stencil: &Stencil,
        state: State,
        cursor: Option<Cursor>,
    ) -> Action {
        let next = self.config.map(|config| config.completed_tcn.saturating_add(1));
        if state == State::Complete && Some(stencil.tcn) != next {
            self.other_tcns.retain(|other| other.id != stencil.id);
            self.other_tcns.push(Stencil { state, cursor, ..stencil.clone() });
        }
        self.awaiting = awaiting;
        Action::UpdateStencil(StencilUpdate { id: stencil.id, state, cursor })
    }

    /// Decides, with everything pushed, whether the TCN is complete: two readings in a row without jobs, no
    /// unreadable documents, no lost jobs, and unchanged sets. The sets are listed once more; `next_stencil`
    /// completes the TCN.
    fn check_completion(&mut self) -> Action {
        if self.pushed || !self.jobs.is_empty() || !self.documents.is_empty() {
            return self.blocked();
        }
        self.idle_readings = self.idle_readings.saturating_add(1);
        let Some(ConfigDocument { completed_tcn, max_tcn }) = self.config else { return self.start_over() };
        if self.idle_readings < IDLE_READINGS_MIN {
            self.phase = Phase::Completing;
            return self.sleep(Awaiting::NextTick);
        }
        let target = Selection::Complete { tcn: completed_tcn.saturating_add(1) };
        if let Some((pushed, done)) = self.losses.lost() {
            self.notices.push(Notice::JobsLost { pushed, done });
            self.losses.restart();
            return self.list(Purpose::Repush, target);
        }
        if completed_tcn < max_tcn {
            return self.list(Purpose::Audit, target);
        }
        if self.phase != Phase::Finished {
            self.notices.push(Notice::Finished(completed_tcn));
        }
        self.phase = Phase::Finished;
        if self.rules.until_done { Action::Finish } else { self.sleep(Awaiting::NextTick) }
    }

    fn complete(&mut self) -> Action {
        let Some(ConfigDocument { completed_tcn: from, .. }) = self.config else { return self.start_over() };
        self.idle_readings = 0;
        self.phase = Phase::Completing;
        self.awaiting = Awaiting::CompletionWritten;
        Action::Complete { from, to: from.saturating_add(1) }
    }

    fn blocked(&mut self) -> Action {
        self.idle_readings = 0;
        let (jobs, documents) = (self.jobs.clone(), self.documents.clone());
        self.phase = match jobs.is_empty() && documents.is_empty() {
            true => Phase::Completing,
            false => Phase::Blocked { jobs, documents, stencils: 0 },
        };
        self.sleep(Awaiting::NextTick)
    }

    fn sleep(&mut self, awaiting: Awaiting) -> Action {
        self.awaiting = awaiting;
        Action::Sleep
    }
}

#[cfg(test)]
mod tests;
