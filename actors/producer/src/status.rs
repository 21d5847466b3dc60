//! What people are told of a producer at work: how far it is, how fast, and what it waits for since when. Times are milliseconds
//! since 1970 and are handed in.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    advance::{Machine, News, Phase},
    pace::Progress,
};

/// Time over which the speed is taken, milliseconds.
const SPAN_MS: u64 = 10_000;

/// The answer to `producer status`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Status {
    /// In one word: `starting`, `standby`, `looking`, `pushing`, `blocked`, `finished`.
    pub phase: &'static str,
    /// Since when.
    pub since_ms: u64,
    /// The TCN that is worked on, once it is known.
    pub tcn: Option<i64>,
    /// The stencil that is pushed.
    pub stencil: Option<String>,
    /// Jobs of it that are acknowledged.
    pub pushed: u64,
    /// Jobs of it.
    pub total: Option<u64>,
    /// Jobs a second, lately.
    pub jobs_per_sec: u64,
    /// Seconds that are left of the stencil at this speed.
    pub left_secs: Option<u64>,
    /// Jobs of this TCN's stencils that are acknowledged, as far as they were taken up by this process.
    pub tcn_pushed: u64,
    /// Jobs of these stencils.
    pub tcn_total: u64,
    /// How many were taken up.
    pub tcn_stencils: usize,
    /// Stencils without jobs, and the set that is empty.
    pub no_headroom: BTreeMap<String, String>,
    /// What it waits for, one sentence each.
    pub blocked_by: Vec<String>,
    /// Has an operator paused it?
    pub paused: bool,
    /// Does it wait for the queue to fall to its low mark?
    pub held: bool,
    /// Which peers are away, and why.
    pub away: BTreeMap<&'static str, String>,
    #[serde(skip)]
    window: (u64, u64),
    /// Pushed and all of each stencil of this TCN.
    #[serde(skip)]
    taken_up: BTreeMap<String, (u64, u64)>,
}

impl Status {
    /// Nothing was done yet.
    pub fn starting() -> Self {
        Self { phase: "starting", ..Self::default() }
    }

    /// The machine has gone on to `machine`'s phase.
    pub fn enter(&mut self, machine: &Machine, now_ms: u64) {
        let (phase, stencil, blocked_by) = words(machine.phase());
        if (phase, &stencil) != (self.phase, &self.stencil) {
            self.since_ms = now_ms;
            (self.pushed, self.total, self.jobs_per_sec, self.left_secs) = (0, None, 0, None);
            self.window = (now_ms, 0);
        }
        (self.phase, self.stencil, self.blocked_by) = (phase, stencil, blocked_by);
        if self.tcn != machine.target() {
            self.tcn = machine.target();
            self.taken_up.clear();
        }
        self.sum();
    }

    /// What people hear once stays here as long as it holds.
    pub fn hear(&mut self, news: &News) {
        match news {
            News::NoHeadroom { stencil, set } => {
                self.no_headroom.insert(stencil.clone(), set.to_string());
            }
            News::Reopened(stencil) => drop(self.no_headroom.remove(stencil)),
            _ => {}
        }
    }

    fn sum(&mut self) {
        let add = |(pushed, total): (u64, u64), more: &(u64, u64)| (pushed + more.0, total + more.1);
        (self.tcn_pushed, self.tcn_total) = self.taken_up.values().fold((0, 0), add);
        self.tcn_stencils = self.taken_up.len();
    }

    /// The stencil came so far.
    pub fn progress(&mut self, progress: Progress, now_ms: u64) {
        let (begun_ms, then) = self.window;
        if then == 0 || progress.pushed < then {
            // What a former push did is no speed of this one.
            self.window = (now_ms, progress.pushed);
        } else if now_ms > begun_ms {
            let spent_ms = now_ms - begun_ms;
            self.jobs_per_sec = (progress.pushed - then).saturating_mul(1_000) / spent_ms;
            if spent_ms >= SPAN_MS {
                self.window = (now_ms, progress.pushed);
            }
        }
        (self.pushed, self.total) = (progress.pushed, progress.total);
        if let Some(stencil) = &self.stencil {
            let total = progress.total.unwrap_or(progress.pushed);
            self.taken_up.insert(stencil.clone(), (progress.pushed, total));
            self.sum();
        }
        let left = progress.total.map(|total| total.saturating_sub(progress.pushed));
        self.left_secs = left.filter(|_| self.jobs_per_sec > 0).map(|left| left.div_ceil(self.jobs_per_sec));
    }
}

fn words(phase: &Phase) -> (&'static str, Option<String>, Vec<String>) {
    match phase {
        Phase::Starting => ("starting", None, Vec::new()),
        Phase::Standby => {
            ("standby", None, vec!["another producer has the lease: it works, this one waits".to_owned()])
        }
        Phase::Looking => ("looking", None, Vec::new()),
        Phase::Pushing(stencil) => ("pushing", Some(stencil.clone()), Vec::new()),
        Phase::Blocked { jobs, documents, stencils } => {
            let mut by: Vec<String> = documents.iter().map(ToString::to_string).collect();
            by.extend(jobs.iter().map(ToString::to_string));
            if *stencils > 0 {
                by.push(format!(
                    "{stencils} stencils are open: those below the next TCN are never pushed with compat = \"strict\""
                ));
            }
            ("blocked", None, by)
        }
        Phase::Finished => ("finished", None, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        advance::{Event, Rules},
        reading::{Count, Judgement, Reading},
        stencil::{Ledger, Set},
    };

    #[test]
    fn speed_and_time_left_are_those_of_this_push() {
        let mut status = Status::default();
        let at = |pushed| Progress { pushed, fresh: 1_000, total: Some(10_000) };
        status.progress(at(4_000), 1_000);
        assert_eq!((status.jobs_per_sec, status.left_secs), (0, None), "4,000 were there before");
        status.progress(at(5_000), 2_000);
        assert_eq!((status.jobs_per_sec, status.left_secs), (1_000, Some(5)));
        status.progress(at(6_000), 12_000);
        status.progress(at(8_000), 13_000);
        assert_eq!((status.jobs_per_sec, status.left_secs), (2_000, Some(1)), "the last seconds count");
    }

    #[test]
    fn a_tcn_is_the_sum_of_its_stencils() {
        let mut status = Status::default();
        for (stencil, pushed, total) in [("a", 5, 10), ("a", 10, 10), ("b", 1, 7)] {
            status.stencil = Some(stencil.to_owned());
            status.progress(Progress { pushed, fresh: 1, total: Some(total) }, 1);
        }
        assert_eq!((status.tcn_pushed, status.tcn_total, status.tcn_stencils), (11, 17, 2));
        let judgement = Judgement { queue: "q".to_owned(), count: Count::Queue, ignore_dead: false };
        let mut machine = Machine::mended(Rules { judgement, page_size: 2, until_done: false });
        let ledger = Event::Ledger(Ledger { completed_tcn: 3, max_tcn: 9 });
        for event in [Event::Started, Event::Leased { epoch: 1 }, ledger] {
            machine.on(event);
        }
        status.enter(&machine, 1);
        assert_eq!((status.tcn, status.tcn_pushed, status.tcn_stencils), (Some(4), 0, 0), "another TCN");
    }

    #[test]
    fn a_stencil_without_jobs_is_told_until_it_has_some() {
        let mut status = Status::default();
        status.hear(&News::NoHeadroom { stencil: "s".to_owned(), set: Set::Scion { tcn: 3 } });
        assert!(status.no_headroom["s"].contains("TCN 3"), "{status:?}");
        status.hear(&News::Reopened("s".to_owned()));
        assert!(status.no_headroom.is_empty());
    }

    #[test]
    fn a_stall_says_what_blocks_since_when() {
        let judgement = Judgement { queue: "q".to_owned(), count: Count::Queue, ignore_dead: false };
        let mut machine = Machine::mended(Rules { judgement, page_size: 2, until_done: false });
        let ledger = Event::Ledger(Ledger { completed_tcn: 3, max_tcn: 9 });
        let mut status = Status::default();
        for (now_ms, event) in [
            (1, Event::Started),
            (2, Event::Leased { epoch: 1 }),
            (3, ledger),
            (4, Event::Read(Reading { retries: 7, ..Reading::default() })),
            (5, Event::Listed(Vec::new())),
            (6, Event::Slept),
        ] {
            machine.on(event);
            status.enter(&machine, now_ms);
        }
        assert_eq!((status.phase, status.since_ms, status.tcn), ("blocked", 5, Some(4)));
        assert_eq!(status.blocked_by, ["7 jobs of any type will be tried again: see why they fail"]);
    }
}
