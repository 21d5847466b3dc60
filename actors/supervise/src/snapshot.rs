//! The tree as it stands, in the types that go over the wire. Counters only grow; rates are the reader's business.

use serde::{Deserialize, Serialize};

use crate::metric::MetricKind;

/// The whole tree at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TreeSnapshot {
    /// Number of the newest event.
    pub seq: u64,
    /// Wall clock, milliseconds since 1970.
    pub captured_at_ms: u64,
    /// Age of the process's tree, milliseconds.
    pub uptime_ms: u64,
    /// The root.
    pub root: NodeSnapshot,
}

/// One child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeSnapshot {
    /// e.g. `orchestrator/queue/fetcher_watcher`: the same string in logs, metrics, URLs and the CLI.
    pub path: String,
    /// Last segment of the path.
    pub id: String,
    /// A name that people know it by.
    pub label: Option<String>,
    /// actor, task, thread, supervisor, pool or dynamic: a supervisor whose children come and go.
    pub kind: String,
    /// stopped, starting, running, paused, stopping, backing_off or stuck.
    pub state: String,
    /// True when it has had one piece of work in progress, or its arbiter has been silent, for over a second.
    pub stuck: bool,
    /// permanent, transient or temporary.
    pub restart: String,
    /// For supervisors: one_for_one, one_for_all or rest_for_one.
    pub strategy: Option<String>,
    /// For supervisors: restarts allowed per period.
    pub intensity: Option<u32>,
    /// For supervisors: the period, milliseconds.
    pub period_ms: Option<u64>,
    /// Can it be paused?
    pub pausable: bool,
    /// Does it answer operator verbs?
    pub console: bool,
    /// Names of its state that outlives restarts.
    #[serde(default)]
    pub durable: Vec<String>,
    /// Arbiter thread that it runs on.
    pub arbiter: Option<String>,
    /// Number of the incarnation, from 1.
    pub incarnation: u64,
    /// When the incarnation started, milliseconds since 1970.
    pub started_ms: u64,
    /// Starts after the first.
    pub restarts: u64,
    /// Restarts that its supervisor may still spend in the running period.
    pub budget_left: u32,
    /// Why and when it last ended.
    pub last_exit: Option<ExitSnapshot>,
    /// The mailbox and inboxes.
    pub mailboxes: Vec<MailboxSnapshot>,
    /// The message or work in progress.
    pub in_progress: Option<InProgressSnapshot>,
    /// Handles of former incarnations that were dropped.
    pub stale: u64,
    /// The connection, if it is an edge.
    pub link: Option<LinkSnapshot>,
    /// What it last set aside, or gave up on.
    pub note: Option<NoteSnapshot>,
    /// Reason why it does no work although it runs.
    #[serde(default)]
    pub blocker: Option<BlockerSnapshot>,
    /// The declared metrics.
    pub metrics: Vec<MetricSnapshot>,
    /// The declared histograms of durations; none from an instance that is older than they are.
    #[serde(default)]
    pub timings: Vec<TimingSnapshot>,
    /// In start order.
    pub children: Vec<NodeSnapshot>,
}

/// Why a child last ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitSnapshot {
    /// normal, shutdown, failed, panicked or killed.
    pub kind: String,
    /// The same with its text.
    pub reason: String,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The message that was in hand and is lost.
    pub in_progress: Option<String>,
}

/// One mailbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxSnapshot {
    /// `mailbox`, or the inbox's name.
    pub name: String,
    /// Messages waiting.
    pub depth: usize,
    /// The bound.
    pub capacity: usize,
    /// Most that ever waited.
    pub high_water: usize,
    /// Messages refused because it was full.
    pub refused: u64,
    /// Messages handed to a handler.
    pub handled: u64,
    /// Messages dropped by a purge.
    pub purged: u64,
    /// Per message type.
    pub messages: Vec<MessageSnapshot>,
}

/// Times of one message type, microseconds; upper bounds of power-of-two buckets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSnapshot {
    /// The type's name.
    pub name: String,
    /// Messages counted.
    pub count: u64,
    /// Time in the mailbox: p50, p95, p99.
    pub wait_us: [u64; 3],
    /// Time in the handler: p50, p95, p99.
    pub handling_us: [u64; 3],
}

/// The work in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InProgressSnapshot {
    /// Type of the message, or the work's name.
    pub name: String,
    /// For how long, milliseconds.
    pub for_ms: u64,
}

/// An edge's connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSnapshot {
    /// e.g. `sqlite`.
    pub kind: String,
    /// Without credentials.
    pub endpoint: String,
    /// idle, connecting, up or down.
    pub state: String,
    /// Tries so far, while connecting.
    pub attempts: Option<u32>,
    /// Since when, milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Why it is down.
    pub reason: Option<String>,
    /// Milliseconds until the next try, while down.
    pub retry_in_ms: Option<u64>,
}

/// What a child last set aside, or gave up on, while it went on with the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteSnapshot {
    /// What and why.
    pub text: String,
    /// Milliseconds since 1970.
    pub at_ms: u64,
}

/// Reason why a child that runs does no work now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockerSnapshot {
    /// Name of the cause, for programs.
    pub kind: String,
    /// The cause with its evidence.
    pub text: String,
    /// Command or action that helps.
    pub help: String,
    /// Start, milliseconds since 1970.
    pub since_ms: u64,
}

/// A declared metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSnapshot {
    /// Its name within the child.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// counter or gauge.
    pub kind: MetricKind,
    /// Help text; empty in a snapshot that was read from another instance.
    #[serde(skip)]
    pub help: &'static str,
    /// Whose it is, where a child has the same metric for several peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelSnapshot>,
    /// Its value.
    pub value: i64,
}

/// What tells one metric from others of its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelSnapshot {
    /// e.g. `worker`.
    pub name: String,
    /// e.g. the worker's name.
    pub value: String,
}

/// Durations of one kind, microseconds; upper bounds of power-of-two buckets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimingSnapshot {
    /// Its name within the child.
    pub name: String,
    /// The label's name.
    pub label: String,
    /// The label's value.
    pub value: String,
    /// Durations recorded.
    pub count: u64,
    /// p50, p95, p99.
    pub us: [u64; 3],
}

impl NodeSnapshot {
    /// This node and everything below it, depth first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a NodeSnapshot)) {
        visit(self);
        self.children.iter().for_each(|child| child.walk(visit));
    }

    /// The node with this path, in this subtree.
    pub fn find(&self, path: &str) -> Option<&NodeSnapshot> {
        if self.path == path {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(path))
    }
}
