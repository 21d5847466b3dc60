//! Entry of one child in the registry, and its snapshot.

use std::{sync::Arc, time::Instant};

use orchestrator_observe::{
    MailboxSnapshot, MessageSnapshot, NodeSnapshot, Restart, STUCK_AFTER, State, millis,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{
    attached::Attached,
    child_state::ChildState,
    command::CommandRequest,
    mailbox_stats::MailboxStats,
    sends::{DeclaredSend, receivers},
};

/// Entry of one child in the registry.
pub(crate) struct Node {
    pub(crate) child: Arc<ChildState>,
    pub(crate) label: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) restart: Restart,
    pub(crate) supervisor: Option<(&'static str, crate::Limits)>,
    pub(crate) pausable: bool,
    pub(crate) attached: Attached,
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
        let (child, vitals) = (&self.child, self.child.vitals());
        let (state, silence) = (child.state(), child.arbiter_silence());
        NodeSnapshot {
            id: path.rsplit('/').next().unwrap_or(&path).to_owned(),
            label: self.label.clone(),
            kind: self.kind.to_owned(),
            state,
            stuck: state == State::Stuck || vitals.work_is_stuck() || silence > STUCK_AFTER,
            shown: String::new(),
            paused_until_ms: child.pause().filter(|_| child.is_paused()).and_then(|pause| pause.until_ms),
            restart: self.restart.name().to_owned(),
            strategy: self.supervisor.map(|(strategy, _)| strategy.to_owned()),
            intensity: self.supervisor.map(|(_, limits)| limits.intensity),
            period_ms: self.supervisor.map(|(_, limits)| millis(limits.period)),
            pausable: self.pausable,
            console: false,
            durable: self.durable.iter().map(|name| (*name).to_owned()).collect(),
            sends_to: receivers(&self.sends),
            arbiter: child.arbiter_name().map(str::to_owned),
            arbiter_silent_ms: (silence > STUCK_AFTER).then(|| millis(silence)),
            incarnation: child.incarnation(),
            started_ms: child.started_ms(),
            restarts: child.restarts(),
            planned_restarts: child.planned_restarts(),
            budget_left: child.budget_left(),
            last_exit: child.last_exit(),
            retry_in_ms: child.retry_in().map(millis),
            mailboxes: child.mailboxes().iter().map(|(name, stats)| mailbox(name, stats)).collect(),
            in_progress: vitals.in_progress_snapshot(),
            waits: child.activity().waits().current(Instant::now()),
            link: vitals.link_snapshot(),
            note: vitals.last_note(),
            blocker: vitals.blocker(),
            last_work: vitals.last_work(),
            expected_inputs: vitals.expected_inputs(),
            metrics: vitals.metric_snapshots(),
            timings: vitals.timing_snapshots(),
            children,
            path,
        }
    }
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
                wait_us: stats.wait.quantiles_us(),
                handling_us: stats.handling.quantiles_us(),
            })
            .collect(),
    }
}
