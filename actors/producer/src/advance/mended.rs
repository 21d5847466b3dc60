//! The default's rules: the original's with its flaws mended.

mod account;

use std::collections::{HashMap, VecDeque};

use super::{
    report::{News, Phase},
    step::{Action, Event, Mark, Rules},
};
use crate::{
    cursor::{Census, Cursor},
    id::Id,
    reading::{Blocker, Reading, blockers},
    stencil::{Ledger, Misread, Selection, State, Stencil},
};
use account::Account;

/// Times that a stencil is grafted again since its sets changed, before a TCN is completed all the same.
pub const REGRAFTS_MAX: u32 = 5;
/// Readings in a row that must find all jobs done: one alone can fall between a job's leaving the queue and its arrival
/// among those in workers' hands.
const READINGS: u8 = 2;

/// What it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Waits {
    Lease,
    /// For the lease of another to end.
    Standby,
    Ledger,
    Reading,
    List(Why),
    Survey(Why, Stencil),
    MarkStarted(Why, Stencil),
    Push(Why, Stencil),
    /// The stencil is dealt with.
    Mark(Why),
    Completion,
    Slept,
}

/// Why stencils are gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// They are not complete.
    Graft,
    /// Their sets may have changed while their jobs were out.
    Audit,
    /// Their jobs were lost.
    Redo,
}

/// The default: durable cursors, two readings before a TCN is complete, an end at `max_tcn`, low stencils and those without
/// headroom looked at again, lost jobs and changed sets noticed.
#[derive(Debug, Clone)]
pub struct Mended {
    rules: Rules,
    epoch: u64,
    ledger: Option<Ledger>,
    account: Account,
    work: VecDeque<Stencil>,
    /// Jobs that block by the tick's reading.
    jobs: Vec<Blocker>,
    documents: Vec<Misread>,
    /// Stencils of other TCNs than the next that were pushed since the last one was completed: they are audited with it.
    low: Vec<Stencil>,
    /// How often stencils were grafted again since their sets changed.
    regrafts: HashMap<Id, u32>,
    /// Has this tick pushed anything? Then its reading is old.
    pushed: bool,
    quiet: u8,
    waits: Waits,
    phase: Phase,
    news: Vec<News>,
}

impl Mended {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            epoch: 0,
            ledger: None,
            account: Account::default(),
            work: VecDeque::new(),
            jobs: Vec::new(),
            documents: Vec::new(),
            low: Vec::new(),
            regrafts: HashMap::new(),
            pushed: false,
            quiet: 0,
            waits: Waits::Lease,
            phase: Phase::Starting,
            news: Vec::new(),
        }
    }

    pub(super) fn target(&self) -> Option<i64> {
        let ledger = self.ledger?;
        Some(ledger.completed_tcn.saturating_add(1).min(ledger.max_tcn))
    }

    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(super) fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    pub(super) fn on(&mut self, event: Event) -> Action {
        let waits = std::mem::replace(&mut self.waits, Waits::Lease);
        match (waits, event) {
            (Waits::Lease, Event::Leased { epoch }) => {
                self.epoch = epoch;
                self.phase = Phase::Looking;
                self.tick()
            }
            (Waits::Lease, Event::LeaseHeld) => {
                self.phase = Phase::Standby;
                self.sleep(Waits::Standby)
            }
            (Waits::Ledger, Event::Ledger(ledger)) => {
                self.ledger = Some(ledger);
                self.waits = Waits::Reading;
                Action::ReadQueue
            }
            (Waits::Reading, Event::Read(reading)) => self.reading(&reading),
            (Waits::List(why), Event::Listed(found)) => self.listed(why, found),
            (Waits::Survey(why, stencil), Event::Surveyed { roots, scions }) => {
                self.surveyed(why, stencil, roots, scions)
            }
            (Waits::MarkStarted(why, stencil), Event::Written) => {
                self.phase = Phase::Pushing(stencil.to_string());
                self.waits = Waits::Push(why, stencil.clone());
                Action::Push(stencil)
            }
            (Waits::Push(why, stencil), Event::Pushed { jobs, cursor }) => {
                self.account.pushed(jobs);
                self.mark(Waits::Mark(why), &stencil, State::Complete, cursor)
            }
            (Waits::Push(why, stencil), Event::Empty(set)) => {
                self.news.push(News::NoHeadroom { stencil: stencil.to_string(), set });
                self.mark(Waits::Mark(why), &stencil, State::NoHeadroom, None)
            }
            (Waits::Mark(why), Event::Written) => self.take_up(why),
            (Waits::Completion, Event::Written) => {
                self.news.extend(self.target().map(News::Completed));
                self.low.clear();
                self.regrafts.clear();
                self.account = Account::default();
                self.tick()
            }
            (Waits::Slept, Event::Slept) => self.tick(),
            // Started, failed, the lease lost or its wait over: all that counts is in the database.
            _ => self.begin(),
        }
    }

    fn begin(&mut self) -> Action {
        let news = std::mem::take(&mut self.news);
        let phase = if self.phase == Phase::Standby { Phase::Standby } else { Phase::Starting };
        *self = Self { news, phase, ..Self::new(self.rules.clone()) };
        Action::TakeLease
    }

    fn tick(&mut self) -> Action {
        self.pushed = false;
        self.waits = Waits::Ledger;
        Action::ReadLedger
    }

    fn reading(&mut self, reading: &Reading) -> Action {
        self.account.read(reading.processed);
        self.jobs = blockers(reading, &self.rules.judgement);
        let tcn = self.target().unwrap_or_default();
        self.list(Why::Graft, Selection::Unfinished { tcn })
    }

    fn list(&mut self, why: Why, selection: Selection) -> Action {
        self.waits = Waits::List(why);
        Action::List(selection)
    }

    fn listed(&mut self, why: Why, found: Vec<Result<Stencil, Misread>>) -> Action {
        self.work.clear();
        let mut documents = Vec::new();
        for stencil in found {
            match stencil {
                Ok(stencil) => self.work.push_back(stencil),
                Err(misread) => documents.push(misread),
            }
        }
        if why == Why::Graft {
            let fresh = documents.iter().filter(|misread| !self.documents.contains(misread));
            self.news.extend(fresh.cloned().map(News::Misread));
            self.documents = documents;
        } else {
            self.work.extend(self.low.iter().cloned());
        }
        self.take_up(why)
    }

    fn take_up(&mut self, why: Why) -> Action {
        let Some(stencil) = self.work.pop_front() else {
            return match why {
                Why::Graft => self.judge(),
                Why::Audit if !self.pushed => self.complete(),
                Why::Audit | Why::Redo => self.wait(),
            };
        };
        self.waits = Waits::Survey(why, stencil.clone());
        Action::Survey(stencil)
    }

    fn surveyed(&mut self, why: Why, stencil: Stencil, roots: Census, scions: Census) -> Action {
        let (page_size, epoch) = (self.rules.page_size, self.epoch);
        let again = |cursor: Cursor| cursor.again(page_size, roots, scions, epoch);
        let cursor = match (why, stencil.cursor) {
            // What the original pushed left no trace of its sets.
            (Why::Audit, None) => return self.take_up(why),
            (Why::Audit, Some(cursor)) => {
                if cursor.fits(roots, scions) {
                    return self.take_up(why);
                }
                let times = self.regrafts.entry(stencil.id).or_default();
                *times += 1;
                let given_up = *times > REGRAFTS_MAX;
                self.news.push(News::Changed { stencil: stencil.to_string(), given_up });
                if given_up {
                    return self.take_up(why);
                }
                again(cursor)
            }
            (Why::Graft, Some(cursor)) if stencil.state == State::Started => cursor.resumed(epoch),
            (Why::Graft | Why::Redo, Some(cursor)) => again(cursor),
            (Why::Graft | Why::Redo, None) => Cursor::fresh(page_size, roots, scions, epoch),
        };
        let empty = [(stencil.roots(), roots), (stencil.scions(), scions)];
        if let Some((set, _)) = empty.into_iter().find(|(_, census)| census.count == 0) {
            if stencil.state == State::NoHeadroom {
                return self.take_up(why);
            }
            self.news.push(News::NoHeadroom { stencil: stencil.to_string(), set });
            return self.mark(Waits::Mark(why), &stencil, State::NoHeadroom, None);
        }
        if stencil.state == State::NoHeadroom {
            self.news.push(News::Reopened(stencil.to_string()));
        }
        self.pushed = true;
        let stencil = Stencil { state: State::Started, cursor: Some(cursor), ..stencil };
        self.mark(Waits::MarkStarted(why, stencil.clone()), &stencil, State::Started, Some(cursor))
    }

    fn mark(&mut self, waits: Waits, stencil: &Stencil, state: State, cursor: Option<Cursor>) -> Action {
        let next = self.ledger.map(|ledger| ledger.completed_tcn.saturating_add(1));
        if state == State::Complete && Some(stencil.tcn) != next {
            self.low.retain(|other| other.id != stencil.id);
            self.low.push(Stencil { state, cursor, ..stencil.clone() });
        }
        self.waits = waits;
        Action::Mark(Mark { id: stencil.id, state, cursor })
    }

    /// Everything is pushed: are all jobs done?
    fn judge(&mut self) -> Action {
        if self.pushed || !self.jobs.is_empty() || !self.documents.is_empty() {
            return self.wait();
        }
        self.quiet = self.quiet.saturating_add(1);
        let Some(Ledger { completed_tcn, max_tcn }) = self.ledger else { return self.begin() };
        if self.quiet < READINGS {
            self.phase = Phase::Looking;
            return self.sleep(Waits::Slept);
        }
        let target = Selection::Complete { tcn: completed_tcn.saturating_add(1) };
        if let Some((pushed, done)) = self.account.lost() {
            self.news.push(News::Vanished { pushed, done });
            self.account.begin_again();
            return self.list(Why::Redo, target);
        }
        if completed_tcn < max_tcn {
            return self.list(Why::Audit, target);
        }
        if self.phase != Phase::Finished {
            self.news.push(News::Finished(completed_tcn));
        }
        self.phase = Phase::Finished;
        if self.rules.until_done { Action::Finish } else { self.sleep(Waits::Slept) }
    }

    fn complete(&mut self) -> Action {
        let Some(Ledger { completed_tcn: from, .. }) = self.ledger else { return self.begin() };
        self.quiet = 0;
        self.phase = Phase::Looking;
        self.waits = Waits::Completion;
        Action::Complete { from, to: from.saturating_add(1) }
    }

    fn wait(&mut self) -> Action {
        self.quiet = 0;
        self.phase =
            Phase::Blocked { jobs: self.jobs.clone(), documents: self.documents.clone(), stencils: 0 };
        self.sleep(Waits::Slept)
    }

    fn sleep(&mut self, waits: Waits) -> Action {
        self.waits = waits;
        Action::Sleep
    }
}

#[cfg(test)]
mod tests;
