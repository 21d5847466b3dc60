//! Status of a producer: phase, progress, speed, and what it waits for. Times are milliseconds since 1970.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use orchestrator_producer_rules::{
    advance::{Machine, Notice, Phase},
    completion_rate::CompletionRate,
    queue_state::QueueState,
};
use orchestrator_subsystem::until_text;
use orchestrator_supervise::{PauseSpan, Vitals};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{completion::UNDELIVERED_MAX, environment::Progress, holder::HolderState};

/// Interval over which the speed is measured, in milliseconds.
const SPEED_WINDOW_MS: u64 = 10_000;

/// Answer to `orchestrator producer status`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Status {
    /// `starting`, `standby`, `checking`, `pushing`, `blocked` or `finished`.
    pub phase: Cow<'static, str>,
    /// Start of the phase.
    pub since_ms: u64,
    /// TCN whose stencils are processed, once it is known.
    pub tcn: Option<i64>,
    /// Stencil whose jobs are being pushed.
    pub stencil: Option<String>,
    /// Acknowledged jobs of the stencil.
    pub pushed: u64,
    /// All jobs of the stencil.
    pub total: Option<u64>,
    /// Speed over the last 10 s.
    pub jobs_per_sec: u64,
    /// Estimated time until the stencil is complete, in seconds.
    pub left_secs: Option<u64>,
    /// Acknowledged jobs of the TCN's stencils that this process has started.
    pub tcn_pushed: u64,
    /// All jobs of these stencils.
    pub tcn_total: u64,
    /// Number of these stencils.
    pub tcn_stencils: usize,
    /// Stencils that are listed for pushing and not started. Their jobs are not counted.
    pub stencils_left: usize,
    /// Stencils up to the TCN that are not complete and never pushed, since their `rootstock_tcn` is 0.
    pub left_out: u64,
    /// Jobs that are not completed: those of started stencils that are not pushed, and those in the
    /// producer's queues and in the sets of working, retried and scheduled jobs.
    pub jobs_left: u64,
    /// Jobs that workers completed per hour, of any type, over the last 15 min.
    pub completed_per_hour: Option<u64>,
    /// Estimated time until `jobs_left` are completed, in seconds.
    pub eta_secs: Option<u64>,
    /// Completed TCNs that `on_complete` has not accepted yet.
    pub undelivered: u64,
    /// Stencils without jobs, with the set that is empty.
    pub no_headroom: BTreeMap<String, String>,
    /// Reasons why the TCN is not complete, one sentence each.
    pub blocked_by: Vec<String>,
    /// True while an operator has paused pushing.
    pub paused: bool,
    /// The pause, with its end.
    #[serde(skip)]
    pub pause: Option<PauseSpan>,
    /// True while pushing is stopped until the queue length falls to `low_water`.
    pub held: bool,
    /// Unavailable peers, `database` or `queue`, with the reason.
    #[serde(rename = "away")]
    pub unavailable: BTreeMap<Cow<'static, str>, String>,
    /// Facts about the lease that is waited for, or about the queue whose length stops pushing.
    #[serde(skip)]
    pub evidence: Vec<String>,
    /// Lease that is waited for.
    #[serde(skip)]
    pub standby: Option<Standby>,
    /// Jobs that wait in the producer's queues.
    #[serde(skip)]
    pub waiting: u64,
    #[serde(skip)]
    window: (u64, u64),
    /// Acknowledged and all jobs of each started stencil of the TCN.
    #[serde(skip)]
    started_stencils: BTreeMap<String, (u64, u64)>,
    #[serde(skip)]
    completion_rate: CompletionRate,
    /// Jobs at the server that are not completed.
    #[serde(skip)]
    outstanding: u64,
}

/// Lease of a holder that may be running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standby {
    /// State of the holder.
    pub state: HolderState,
    /// End of the lease, by the database's clock, since 1970.
    pub until_ms: i64,
}

impl Standby {
    /// Describes the wait, and names the remedy.
    fn texts(standby: Option<Self>) -> (String, &'static str) {
        const STANDBY: &str = "this one is on standby";
        let Some(Self { state: state @ (HolderState::Former | HolderState::Unknown), until_ms }) = standby
        else {
            let help = "orchestrator producer status; stop the other producer";
            return (format!("another producer has the lease: {STANDBY}"), help);
        };
        let of_day = until_ms.div_euclid(1_000).rem_euclid(24 * 3_600);
        let until = format!("{:02}:{:02}:{:02} UTC", of_day / 3_600, of_day / 60 % 60, of_day % 60);
        let former = match state {
            HolderState::Former => "an earlier incarnation of this producer",
            _ => "a producer of an earlier boot or of another container of this host",
        };
        let text = format!("{former} holds the lease until {until}, and no other is known to run: {STANDBY}");
        (text, "orchestrator producer status; wait until the lease ends")
    }
}

impl Status {
    pub(crate) fn starting(now_ms: u64) -> Self {
        Self { phase: "starting".into(), since_ms: now_ms, ..Self::default() }
    }

    /// Updates phase and TCN.
    pub(crate) fn update_phase(&mut self, machine: &Machine, now_ms: u64) {
        let (phase, stencil, blocked_by) = describe(machine.phase(), self.standby);
        if phase != self.phase || stencil != self.stencil {
            self.since_ms = now_ms;
            (self.pushed, self.total, self.jobs_per_sec, self.left_secs) = (0, None, 0, None);
            self.window = (now_ms, 0);
        }
        (self.phase, self.stencil, self.blocked_by) = (phase.into(), stencil, blocked_by);
        if self.tcn != machine.target() {
            self.tcn = machine.target();
            self.started_stencils.clear();
        }
        self.stencils_left = machine.waiting_stencils();
        self.update_totals();
    }

    /// Updates the rate of completion from a reading at `now_ms` of a steady clock.
    pub(crate) fn update_queue(&mut self, queue_state: &QueueState, queues: &BTreeSet<String>, now_ms: u64) {
        let QueueState { working, retries, scheduled, processed, .. } = queue_state;
        let sets = working.saturating_add(*retries).saturating_add(*scheduled);
        self.waiting = queue_state.total_length(queues);
        self.outstanding = self.waiting.saturating_add(sets);
        self.completion_rate.read(now_ms, *processed, self.outstanding);
        self.update_totals();
    }

    /// Adds or removes a stencil without jobs.
    pub(crate) fn apply_notice(&mut self, notice: &Notice) {
        match notice {
            Notice::NoHeadroom { stencil, set } => {
                self.no_headroom.insert(stencil.clone(), set.to_string());
            }
            Notice::Reopened(stencil) => drop(self.no_headroom.remove(stencil)),
            _ => {}
        }
    }

    fn update_totals(&mut self) {
        let add = |(pushed, total): (u64, u64), more: &(u64, u64)| (pushed + more.0, total + more.1);
        (self.tcn_pushed, self.tcn_total) = self.started_stencils.values().fold((0, 0), add);
        self.tcn_stencils = self.started_stencils.len();
        self.jobs_left = self.tcn_total.saturating_sub(self.tcn_pushed).saturating_add(self.outstanding);
        self.completed_per_hour = self.completion_rate.per_hour();
        self.eta_secs = self.completion_rate.secs_for(self.jobs_left);
    }

    /// Updates progress and speed of the stencil.
    pub(crate) fn update_progress(&mut self, progress: Progress, now_ms: u64) {
        let (window_start_ms, pushed_before) = self.window;
        if pushed_before == 0 || progress.pushed < pushed_before {
            // The speed does not include jobs of an earlier run.
            self.window = (now_ms, progress.pushed);
        } else if now_ms > window_start_ms {
            let elapsed_ms = now_ms - window_start_ms;
            self.jobs_per_sec = (progress.pushed - pushed_before).saturating_mul(1_000) / elapsed_ms;
            if elapsed_ms >= SPEED_WINDOW_MS {
                self.window = (now_ms, progress.pushed);
            }
        }
        (self.pushed, self.total) = (progress.pushed, progress.total);
        if let Some(stencil) = &self.stencil {
            let total = progress.total.unwrap_or(progress.pushed);
            self.started_stencils.insert(stencil.clone(), (progress.pushed, total));
            self.update_totals();
        }
        let left = progress.total.map(|total| total.saturating_sub(progress.pushed));
        self.left_secs = left.filter(|_| self.jobs_per_sec > 0).map(|left| left.div_ceil(self.jobs_per_sec));
    }

    /// Reports the reason for not pushing to `GET /v1/why`.
    pub(crate) fn report_blocker(&self, vitals: &Vitals) {
        let causes = self.blocked_by.join("; ");
        match &*self.phase {
            _ if self.paused => {
                let text = format!(
                    "an operator paused pushing{}",
                    until_text(self.pause.and_then(|pause| pause.until_ms))
                );
                vitals.set_blocker("paused", text, "orchestrator producer resume");
            }
            "standby" => {
                vitals.set_routine("lease_held", causes, &self.evidence, Standby::texts(self.standby).1)
            }
            _ if self.held => vitals.set_routine(
                "queue_full",
                "pushing is stopped by high_water: too many jobs wait in the queues",
                &self.evidence,
                "orchestrator producer status; start workers, or raise producer.high_water",
            ),
            _ if self.undelivered >= UNDELIVERED_MAX as u64 => vitals.set_blocker(
                "undelivered",
                format!(
                    "{} completed TCNs wait for on_complete, and the next TCN for one of them",
                    self.undelivered
                ),
                "orchestrator tree producer/on_complete",
            ),
            "blocked" => vitals.set_routine("tcn_blocked", causes, &[], "orchestrator producer status"),
            _ => vitals.clear_blocker(),
        }
    }
}

fn describe(phase: &Phase, standby: Option<Standby>) -> (&'static str, Option<String>, Vec<String>) {
    match phase {
        Phase::Starting => ("starting", None, Vec::new()),
        Phase::Standby => ("standby", None, vec![Standby::texts(standby).0]),
        Phase::Checking => ("checking", None, Vec::new()),
        Phase::Completing => ("completing", None, Vec::new()),
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
    use orchestrator_producer_rules::{
        advance::{Event, Rules},
        queue_state::{CompletionCriteria, CountedQueues, QueueState},
        stencil::{ConfigDocument, Set},
    };

    #[test]
    fn speed_is_measured_over_the_last_seconds_of_this_run() {
        let mut status = Status::default();
        let at = |pushed| Progress { pushed, fresh: 1_000, total: Some(10_000) };
        status.update_progress(at(4_000), 1_000);
        assert_eq!((status.jobs_per_sec, status.left_secs), (0, None), "4,000 were there before");
        status.update_progress(at(5_000), 2_000);
        assert_eq!((status.jobs_per_sec, status.left_secs), (1_000, Some(5)));
        status.update_progress(at(6_000), 12_000);
        status.update_progress(at(8_000), 13_000);
        assert_eq!((status.jobs_per_sec, status.left_secs), (2_000, Some(1)), "the last seconds count");
    }

    #[test]
    fn tcn_progress_is_the_sum_over_its_stencils() {
        let mut status = Status::default();
        for (stencil, pushed, total) in [("a", 5, 10), ("a", 10, 10), ("b", 1, 7)] {
            status.stencil = Some(stencil.to_owned());
            status.update_progress(Progress { pushed, fresh: 1, total: Some(total) }, 1);
        }
        assert_eq!((status.tcn_pushed, status.tcn_total, status.tcn_stencils), (11, 17, 2));
        let criteria = CompletionCriteria {
            queues: ["q".to_owned()].into(),
            count: CountedQueues::Queue,
            ignore_dead: false,
        };
        let mut machine = Machine::resilient(Rules { criteria, page_size: 2, until_done: false });
        let config = Event::ConfigRead(ConfigDocument { completed_tcn: 3, max_tcn: 9 });
        for event in [Event::Started, Event::Leased { epoch: 1 }, config] {
            machine.on(event);
        }
        status.update_phase(&machine, 1);
        assert_eq!((status.tcn, status.tcn_pushed, status.tcn_stencils), (Some(4), 0, 0), "another TCN");
    }

    #[test]
    fn the_eta_is_that_of_pushed_and_of_unpushed_jobs_at_the_rate_of_completion() {
        let (queues, other) = (BTreeSet::from(["q".to_owned()]), ("other".to_owned(), 1_000));
        let mut status = Status { stencil: Some("s".to_owned()), ..Status::default() };
        status.update_progress(Progress { pushed: 60, fresh: 60, total: Some(100) }, 1);
        let reading = |waiting, processed| QueueState {
            queues: [("q".to_owned(), waiting), other.clone()].into(),
            working: 3,
            retries: 2,
            scheduled: 1,
            dead: 100,
            processed,
        };
        status.update_queue(&reading(54, 500), &queues, 10_000);
        assert_eq!((status.jobs_left, status.eta_secs), (40 + 54 + 6, None), "nothing is completed yet");
        status.update_queue(&reading(34, 520), &queues, 20_000);
        assert_eq!((status.jobs_left, status.completed_per_hour), (80, Some(7_200)));
        assert_eq!(status.eta_secs, Some(40));
        status.update_progress(Progress { pushed: 100, fresh: 40, total: Some(100) }, 2);
        assert_eq!((status.jobs_left, status.eta_secs), (40, Some(20)), "as of the last reading");
    }

    #[test]
    fn a_former_producer_is_not_called_another_one() {
        let text = |state| Standby::texts(Some(Standby { state, until_ms: 90_061_999 })).0;
        assert_eq!(
            text(HolderState::Unknown),
            "a producer of an earlier boot or of another container of this host holds the lease until 01:01:01 UTC, and no other is \
             known to run: this one is on standby"
        );
        assert!(text(HolderState::Former).starts_with("an earlier incarnation of this producer holds"));
        for other in [HolderState::Running, HolderState::Elsewhere] {
            assert_eq!(text(other), "another producer has the lease: this one is on standby");
        }
    }

    #[test]
    fn a_stencil_without_jobs_is_listed_until_it_has_some() {
        let mut status = Status::default();
        status.apply_notice(&Notice::NoHeadroom { stencil: "s".to_owned(), set: Set::Scion { tcn: 3 } });
        assert!(status.no_headroom["s"].contains("TCN 3"), "{status:?}");
        status.apply_notice(&Notice::Reopened("s".to_owned()));
        assert!(status.no_headroom.is_empty());
    }

    #[test]
    fn a_blocked_tcn_has_reasons_and_a_start_time() {
        let criteria = CompletionCriteria {
            queues: ["q".to_owned()].into(),
            count: CountedQueues::Queue,
            ignore_dead: false,
        };
        let mut machine = Machine::resilient(Rules { criteria, page_size: 2, until_done: false });
        let config = Event::ConfigRead(ConfigDocument { completed_tcn: 3, max_tcn: 9 });
        let mut status = Status::default();
        for (now_ms, event) in [
            (1, Event::Started),
            (2, Event::Leased { epoch: 1 }),
            (3, config),
            (4, Event::QueueRead(QueueState { retries: 7, ..QueueState::default() })),
            (5, Event::Listed(Vec::new())),
            (6, Event::Slept),
        ] {
            machine.on(event);
            status.update_phase(&machine, now_ms);
        }
        assert_eq!((&*status.phase, status.since_ms, status.tcn), ("blocked", 5, Some(4)));
        assert_eq!(status.blocked_by, ["7 jobs of any type will be retried: check why they fail"]);
    }
}
