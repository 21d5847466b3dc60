//! Entry of one child in the registry, and its snapshot.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{
    Link, State, Timing, Vitals,
    command::CommandRequest,
    console::ConsoleVerb,
    export::Exports,
    histogram::Histogram,
    in_progress::STUCK_AFTER,
    link_failure::LinkFailure,
    link_status::LinkStatus,
    mailbox_stats::MailboxStats,
    sends::{DeclaredSend, receivers},
    snapshot::*,
};

/// Entry of one child in the registry.
pub(crate) struct Node {
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) label: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) restart: &'static str,
    pub(crate) supervisor: Option<(&'static str, crate::Limits)>,
    pub(crate) pausable: bool,
    /// Verbs of the console, if the child has one.
    pub(crate) console: Arc<[ConsoleVerb]>,
    pub(crate) exports: Option<Exports>,
    /// Names of the durable state.
    pub(crate) durable: Box<[&'static str]>,
    /// Messages that it declares.
    pub(crate) sends: Vec<DeclaredSend>,
    /// Supervisor, and the child's position in it; None for the root.
    pub(crate) parent: Option<(mpsc::UnboundedSender<CommandRequest>, usize)>,
    /// Paths of the children, in start order.
    pub(crate) children: Mutex<Vec<String>>,
}

impl Node {
    pub(crate) fn snapshot(&self, path: String, children: Vec<NodeSnapshot>) -> NodeSnapshot {
        let vitals = &self.vitals;
        let (in_progress, now) = (vitals.work().oldest(), Instant::now());
        let busy = in_progress.is_some_and(|item| item.is_stuck(now));
        let state = vitals.state();
        let silence = vitals.arbiter_silence();
        NodeSnapshot {
            id: path.rsplit('/').next().unwrap_or(&path).to_owned(),
            label: self.label.clone(),
            kind: self.kind.to_owned(),
            state,
            stuck: state == State::Stuck || busy || silence > STUCK_AFTER,
            shown: String::new(),
            paused_until_ms: vitals.pause().filter(|_| vitals.is_paused()).and_then(|pause| pause.until_ms),
            restart: self.restart.to_owned(),
            strategy: self.supervisor.map(|(strategy, _)| strategy.to_owned()),
            intensity: self.supervisor.map(|(_, limits)| limits.intensity),
            period_ms: self.supervisor.map(|(_, limits)| millis(limits.period)),
            pausable: self.pausable,
            console: !self.console.is_empty(),
            durable: self.durable.iter().map(|name| (*name).to_owned()).collect(),
            sends_to: receivers(&self.sends),
            arbiter: vitals.arbiter_name().map(str::to_owned),
            arbiter_silent_ms: (silence > STUCK_AFTER).then(|| millis(silence)),
            incarnation: vitals.incarnation(),
            started_ms: vitals.started_ms(),
            restarts: vitals.restarts(),
            planned_restarts: vitals.planned_restarts(),
            budget_left: vitals.budget_left(),
            last_exit: vitals.last_exit(),
            retry_in_ms: vitals.retry_in().map(millis),
            mailboxes: vitals.mailboxes().iter().map(|(name, stats)| mailbox(name, stats)).collect(),
            in_progress: in_progress.map(|item| InProgressSnapshot {
                name: item.name.to_owned(),
                for_ms: millis(now.saturating_duration_since(item.since)),
                silent_ms: millis(item.silence(now)),
            }),
            waits: vitals.activity().waits().current(now),
            link: vitals.link_state().map(|(kind, endpoint, link)| LinkSnapshot {
                waits_ms: vitals.link_waits().map(millis),
                ..link_snapshot(kind, endpoint, link)
            }),
            note: vitals.last_note(),
            blocker: vitals.blocker(),
            last_work: vitals.last_work(),
            expected_inputs: vitals.expected_inputs(),
            metrics: vitals
                .metrics()
                .iter()
                .map(|metric| MetricSnapshot {
                    name: metric.name.to_owned(),
                    unit: metric.unit.to_owned(),
                    kind: metric.kind,
                    help: metric.help,
                    label: metric.label.as_ref().map(|(name, value)| LabelSnapshot {
                        name: (*name).to_owned(),
                        value: value.to_string(),
                    }),
                    value: metric.get(),
                    bound: metric.bound(),
                })
                .collect(),
            timings: vitals.timings().iter().map(timing).collect(),
            children,
            path,
        }
    }
}

fn timing(timing: &Timing) -> TimingSnapshot {
    let (label, value) = timing.label;
    TimingSnapshot {
        name: timing.name.to_owned(),
        label: label.to_owned(),
        value: value.to_owned(),
        count: timing.histogram.count(),
        us: quantiles(&timing.histogram),
    }
}

/// p50, p95 and p99, in microseconds.
fn quantiles(histogram: &Histogram) -> [u64; 3] {
    [0.5, 0.95, 0.99].map(|q| histogram.quantile_us(q))
}

fn mailbox(name: &str, stats: &MailboxStats) -> MailboxSnapshot {
    MailboxSnapshot {
        name: name.to_owned(),
        depth: stats.depth(),
        capacity: stats.capacity(),
        high_water: stats.high_water(),
        refused: stats.refused(),
        handled: stats.handled(),
        purged: stats.purged(),
        messages: stats
            .message_stats()
            .iter()
            .map(|stats| MessageSnapshot {
                name: stats.name.to_owned(),
                count: stats.wait.count(),
                wait_us: quantiles(&stats.wait),
                handling_us: quantiles(&stats.handling),
            })
            .collect(),
    }
}

fn link_snapshot(kind: &str, endpoint: String, link: Link) -> LinkSnapshot {
    let mut snapshot = LinkSnapshot {
        kind: kind.to_owned(),
        endpoint,
        state: LinkStatus::Idle,
        attempts: None,
        since_ms: None,
        reason: None,
        failure: None,
        help: None,
        retry_in_ms: None,
        waits_ms: None,
    };
    let left = |at: Instant| millis(at.saturating_duration_since(Instant::now()));
    match link {
        Link::Idle => {}
        Link::Connecting { attempt } => {
            snapshot.state = LinkStatus::Connecting;
            snapshot.attempts = Some(attempt);
        }
        Link::Up { since_ms } => {
            snapshot.state = LinkStatus::Up;
            snapshot.since_ms = Some(since_ms);
        }
        Link::Down { since_ms, failure: LinkFailure { reason, kind, help }, retry_at } => {
            snapshot.state = LinkStatus::Down;
            snapshot.since_ms = Some(since_ms);
            snapshot.reason = Some(reason);
            snapshot.failure = Some(kind.name().to_owned());
            snapshot.help = help;
            snapshot.retry_in_ms = Some(left(retry_at));
        }
        Link::Unanswered { since_ms, reason, retry_at } => {
            snapshot.state = LinkStatus::Unanswered;
            snapshot.since_ms = Some(since_ms);
            snapshot.reason = Some(reason);
            snapshot.retry_in_ms = retry_at.map(left);
        }
    }
    snapshot
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
