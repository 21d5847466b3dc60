//! Snapshots of the tree, as in JSON. Counters only grow; readers compute rates.

use serde::{Deserialize, Serialize};

use crate::{link_status::LinkStatus, metric::MetricKind, restart::Restart, state::State};

/// Snapshot of the whole tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Tree"))]
pub struct TreeSnapshot {
    /// Number of the newest event; later events are read with it.
    pub seq: u64,
    /// Wall clock time, milliseconds since 1970.
    pub captured_at_ms: u64,
    /// Age of the process's tree, milliseconds.
    pub uptime_ms: u64,
    /// Root.
    pub root: NodeSnapshot,
}

/// Snapshot of one child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Node"))]
pub struct NodeSnapshot {
    /// Path in logs, metrics, URLs and on command lines: the ids from the root to the child, with `/` between
    /// them.
    pub path: String,
    /// Last segment of the path.
    pub id: String,
    /// Name for people, for example of the configured file or peer.
    pub label: Option<String>,
    /// `actor`, `task`, `thread`, `supervisor`, `pool` or `dynamic` (a dynamic supervisor).
    pub kind: String,
    /// `stopped`, `starting`, `running`, `paused`, `stopping`, `backing_off`, `stuck` or `given_up`.
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = State::NAMES)))]
    pub state: State,
    /// True if a work item, or a poll of its arbiter, has made no progress for over a second.
    pub stuck: bool,
    /// State to show: `state`, `stuck`, `paused` also by a command of a subsystem, or `blocked` while a cause
    /// that is not routine holds the child up; of a supervisor with the worst of its children. The server of
    /// snapshots fills it; empty in the JSON of an instance without it.
    #[serde(default)]
    pub shown: String,
    /// Time at which an operator's pause ends by itself, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until_ms: Option<u64>,
    /// `permanent` or `transient`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = Restart::NAMES)))]
    pub restart: String,
    /// For supervisors: `one_for_one`, `one_for_all` or `rest_for_one`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["one_for_one", "one_for_all", "rest_for_one", null])))]
    pub strategy: Option<String>,
    /// For supervisors: restarts allowed per period.
    pub intensity: Option<u32>,
    /// For supervisors: the period, milliseconds.
    pub period_ms: Option<u64>,
    /// True if operators can pause it.
    pub pausable: bool,
    /// True if it answers verbs of operators. The server of snapshots fills it.
    pub console: bool,
    /// Names of its durable state.
    #[serde(default)]
    pub durable: Vec<String>,
    /// Paths of the children that it sends messages to, as its specification declares; missing if there are
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends_to: Vec<String>,
    /// Name of its arbiter thread.
    pub arbiter: Option<String>,
    /// Time for which its arbiter has made no progress, milliseconds, if that makes the child stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arbiter_silent_ms: Option<u64>,
    /// Number of the incarnation, from 1.
    pub incarnation: u64,
    /// Start of the incarnation, milliseconds since 1970.
    pub started_ms: u64,
    /// Restarts because of an exit of the child, a sibling or a supervisor above it.
    pub restarts: u64,
    /// Restarts by command, or for a new mapping; 0 in the JSON of an instance that counts them as
    /// `restarts`.
    #[serde(default)]
    pub planned_restarts: u64,
    /// Restarts that its supervisor still allows in the current period.
    pub budget_left: u32,
    /// Last exit.
    pub last_exit: Option<ExitSnapshot>,
    /// Time until it is tried again, milliseconds, while it is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
    /// Mailbox and inboxes.
    pub mailboxes: Vec<MailboxSnapshot>,
    /// Oldest work item in progress.
    pub in_progress: Option<InProgressSnapshot>,
    /// Waits for other children; missing if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitSnapshot>,
    /// Connection to a peer, if it has one.
    pub link: Option<LinkSnapshot>,
    /// Last item that the child set aside, and the reason.
    pub note: Option<NoteSnapshot>,
    /// Reason why it does no work although it runs.
    #[serde(default)]
    pub blocker: Option<BlockerSnapshot>,
    /// Last finished work, if it counts units of work.
    #[serde(default)]
    pub last_work: Option<WorkSnapshot>,
    /// Inputs that it expects at intervals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected_inputs: Vec<ExpectedInputSnapshot>,
    /// Registered metrics.
    pub metrics: Vec<MetricSnapshot>,
    /// Registered histograms of durations; empty in the JSON of an instance without them.
    #[serde(default)]
    pub timings: Vec<TimingSnapshot>,
    /// Children in start order.
    pub children: Vec<NodeSnapshot>,
}

/// Last exit of a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExitSnapshot {
    /// `normal`, `shutdown`, `failed`, `panicked` or `killed`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["normal", "shutdown", "failed", "panicked", "killed"])))]
    pub kind: String,
    /// Kind and text.
    pub reason: String,
    /// Time, milliseconds since 1970.
    pub at_ms: u64,
    /// Message type or work item in progress at the end, which is lost.
    pub in_progress: Option<String>,
}

/// Snapshot of one mailbox or inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MailboxSnapshot {
    /// `mailbox`, or the inbox's name.
    pub name: String,
    /// Messages waiting.
    pub depth: usize,
    /// Most messages that may wait.
    pub capacity: usize,
    /// Most messages that ever waited.
    pub high_water: usize,
    /// Messages refused because it was full.
    pub refused: u64,
    /// Messages passed to a handler.
    pub handled: u64,
    /// Messages dropped by a purge.
    pub purged: u64,
    /// Durations of each message type.
    pub messages: Vec<MessageSnapshot>,
}

/// Durations of one message type in microseconds: upper bounds of power-of-two buckets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageSnapshot {
    /// Name of the type.
    pub name: String,
    /// Messages counted.
    pub count: u64,
    /// Time in the mailbox: p50, p95, p99.
    pub wait_us: [u64; 3],
    /// Time in the handler: p50, p95, p99.
    pub handling_us: [u64; 3],
}

/// Work item in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InProgressSnapshot {
    /// Message type, or name of the work item.
    pub name: String,
    /// Duration so far, milliseconds.
    pub for_ms: u64,
    /// Time since its start or its last report of progress, milliseconds; 0 in the JSON of an instance
    /// without such reports.
    #[serde(default)]
    pub silent_ms: u64,
}

/// Waits of a child for one mailbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitSnapshot {
    /// Path of the child with the mailbox.
    pub on: String,
    /// `answer`, or `room` if the mailbox is full.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["answer", "room"])))]
    pub kind: String,
    /// Number of waits.
    pub count: usize,
    /// True if the child handles no other message meanwhile. Always true for tasks and threads.
    pub blocks: bool,
    /// Time since the first wait began, or since the last answer, milliseconds.
    pub for_ms: u64,
}

/// State of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkSnapshot {
    /// Kind of the peer, for example `sqlite`.
    pub kind: String,
    /// Address, without credentials.
    pub endpoint: String,
    /// `idle`, `connecting`, `up`, `down` or `unanswered`.
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = LinkStatus::NAMES)))]
    pub state: LinkStatus,
    /// Attempts so far, while connecting.
    pub attempts: Option<u32>,
    /// Start of the state, milliseconds since 1970; of the request, while unanswered.
    pub since_ms: Option<u64>,
    /// Reason, while down or unanswered.
    pub reason: Option<String>,
    /// Kind of the failure, while down: `down`, `refused`, `unusable`, `blocked` or `disk_full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Command or action that helps, while down, if the child knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Time until the next attempt, milliseconds, while down or after a failure without an answer.
    pub retry_in_ms: Option<u64>,
    /// Time for which the oldest request awaits its answer, milliseconds; missing without a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_ms: Option<u64>,
}

/// Last item that a child set aside, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoteSnapshot {
    /// The item and the reason.
    pub text: String,
    /// Time, milliseconds since 1970.
    pub at_ms: u64,
}

/// Reason why a child that runs does no work now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockerSnapshot {
    /// Name of the cause, for programs.
    pub kind: String,
    /// The cause in one sentence.
    pub text: String,
    /// Facts that support it.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// Command or action that helps.
    pub help: String,
    /// Start, milliseconds since 1970.
    pub since_ms: u64,
    /// Address or name of what failed, if a peer or the system reports the reason. Reports about the same one
    /// have one cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault_of: Option<String>,
    /// True for a reason that healthy days have, too, such as an empty input.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub routine: bool,
}

/// Last finished work of a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Work"))]
pub struct WorkSnapshot {
    /// Name of one unit, for example `job`.
    pub unit: String,
    /// Time, milliseconds since 1970; null before the first unit.
    pub at_ms: Option<u64>,
    /// True if more work waits in the child, besides the messages in its mailboxes.
    pub waits: bool,
}

/// Input that a child expects at intervals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExpectedInputSnapshot {
    /// Name.
    pub name: String,
    /// Longest time between two arrivals, milliseconds.
    pub every_ms: u64,
    /// Last arrival, or the start of the first period, milliseconds since 1970.
    pub last_ms: u64,
    /// Time by which the next arrival is late, milliseconds; 0 if it is not.
    pub late_ms: u64,
    /// Command or action that helps if it is late.
    pub help: String,
}

/// Registered metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricSnapshot {
    /// Name within the child.
    pub name: String,
    /// Unit, empty if it has none.
    pub unit: String,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// Help text; empty in a snapshot that was read from another instance.
    #[serde(skip)]
    pub help: &'static str,
    /// Label of a metric that exists for several peers; missing if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelSnapshot>,
    /// Value.
    pub value: i64,
    /// Upper bound of memory that the child holds, bytes; missing if the metric is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<u64>,
}

/// Label of a metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabelSnapshot {
    /// Name, for example `worker`.
    pub name: String,
    /// Value, for example the name of the worker.
    pub value: String,
}

/// Histogram of durations in microseconds: upper bounds of power-of-two buckets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimingSnapshot {
    /// Name within the child.
    pub name: String,
    /// Name of the label.
    pub label: String,
    /// Value of the label.
    pub value: String,
    /// Number of durations.
    pub count: u64,
    /// p50, p95 and p99, microseconds.
    pub us: [u64; 3],
}

impl NodeSnapshot {
    /// Returns the state to show.
    pub fn shown(&self) -> &str {
        match self.shown.as_str() {
            "" if self.stuck => "stuck",
            "" => self.state.name(),
            shown => shown,
        }
    }

    /// True if a child that is not restarted after a normal exit has ended its work.
    pub fn has_exited(&self) -> bool {
        self.restart != Restart::Permanent.name() && self.state == State::Stopped
    }

    /// True if a connection that the child needs is not up.
    pub fn is_cut_off(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.state.is_away())
    }

    /// Calls `visit` for this node and all nodes below it, depth first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a NodeSnapshot)) {
        visit(self);
        self.children.iter().for_each(|child| child.walk(visit));
    }

    /// Returns the node with this path in this subtree.
    pub fn find(&self, path: &str) -> Option<&NodeSnapshot> {
        if self.path == path {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(path))
    }
}
