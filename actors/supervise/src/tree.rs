//! The registry: what runs, what happened, and the one way to steer it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use crate::{
    Link, State, Vitals,
    arbiter::Arbiters,
    console::{ConsoleReply, ConsoleRequest},
    event::{Event, EventKind, EventLog, now_ms},
    mailbox::{AskError, Recipient},
    order::{Order, OrderError, Verb},
    snapshot::*,
};

/// Longest time that a command waits for its effect.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time that a console may take to answer.
pub const CONSOLE_TIMEOUT: Duration = Duration::from_secs(2);
/// From here on work in hand, or a silent arbiter, counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// A handle on the tree. Cheap to clone.
#[derive(Clone)]
pub struct Tree {
    inner: Arc<Inner>,
}

struct Inner {
    root: String,
    nodes: OnceLock<BTreeMap<String, Node>>,
    events: EventLog,
    since: Instant,
    arbiters: Arbiters,
    chaos: AtomicBool,
}

/// The fixed facts of one child.
pub(crate) struct Node {
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) label: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) restart: &'static str,
    pub(crate) supervisor: Option<(&'static str, crate::Limits)>,
    pub(crate) pausable: bool,
    pub(crate) console: Option<Recipient<ConsoleRequest>>,
    /// The supervisor above and the position below it; None for the root.
    pub(crate) parent: Option<(mpsc::UnboundedSender<Order>, usize)>,
    /// Paths, in start order.
    pub(crate) children: Vec<String>,
}

/// Who asks, and why.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// As far as known, e.g. `uid 0 over the admin socket`.
    pub by: String,
    /// In the operator's words.
    pub reason: String,
}

/// What a command changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// State before.
    pub before: State,
    /// State after.
    pub after: State,
}

/// Why a command was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no such child.
    #[error("there is no child `{0}`: `orchestrator tree` lists them all")]
    NotFound(String),
    /// The child exists, but this cannot be done with it now.
    #[error("{0}")]
    Illegal(String),
    /// The command was given, its effect did not show in time.
    #[error("`{0}` did not get there within {COMMAND_TIMEOUT:?}: look at its state in the tree")]
    TimedOut(String),
}

/// Why a console has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleCallError {
    /// There is no such child, or it answers no verbs.
    #[error("{0}")]
    NoConsole(String),
    /// The child could not be asked.
    #[error("{0}")]
    Ask(#[from] AskError),
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("root", &self.inner.root).finish_non_exhaustive()
    }
}

impl Tree {
    pub(crate) fn new(root: &str) -> Self {
        Self {
            inner: Arc::new(Inner {
                root: root.to_owned(),
                nodes: OnceLock::new(),
                events: EventLog::default(),
                since: Instant::now(),
                arbiters: Arbiters::default(),
                chaos: AtomicBool::new(false),
            }),
        }
    }

    pub(crate) fn arbiters(&self) -> &Arbiters {
        &self.inner.arbiters
    }

    pub(crate) fn populate(&self, nodes: BTreeMap<String, Node>) {
        assert!(self.inner.nodes.set(nodes).is_ok(), "a tree is built once");
    }

    fn nodes(&self) -> &BTreeMap<String, Node> {
        self.inner.nodes.get().expect("a tree is handed out after it was built")
    }

    /// The history.
    pub fn event_log(&self) -> &EventLog {
        &self.inner.events
    }

    /// Events after `seq`, oldest first.
    pub fn events(&self, seq: u64) -> Vec<Event> {
        self.inner.events.since(seq)
    }

    /// All paths, in alphabetical order.
    pub fn paths(&self) -> Vec<String> {
        self.nodes().keys().cloned().collect()
    }

    /// Lets [`Verb::Panic`] through from now on. Off by default: only tests and drills want it.
    pub fn allow_chaos(&self) {
        self.inner.chaos.store(true, Relaxed);
    }

    /// The full path for `path`, which may leave out the root's name.
    pub fn resolve(&self, path: &str) -> Option<String> {
        let path = path.trim_matches('/');
        let full = if path.is_empty() { self.inner.root.clone() } else { path.to_owned() };
        let below = format!("{}/{path}", self.inner.root);
        [full, below].into_iter().find(|candidate| self.nodes().contains_key(candidate))
    }

    /// The vitals of the child at `path`.
    pub fn vitals(&self, path: &str) -> Option<Arc<Vitals>> {
        Some(self.nodes().get(&self.resolve(path)?)?.vitals.clone())
    }

    /// The tree as it stands. Reads vitals only: a stuck child cannot hide it.
    pub fn snapshot(&self) -> TreeSnapshot {
        TreeSnapshot {
            seq: self.inner.events.newest(),
            captured_at_ms: now_ms(),
            uptime_ms: millis(self.inner.since.elapsed()),
            root: self.node(&self.inner.root).expect("the root is always there"),
        }
    }

    /// One subtree as it stands.
    pub fn node(&self, path: &str) -> Option<NodeSnapshot> {
        let path = self.resolve(path)?;
        let node = self.nodes().get(&path)?;
        let children = node.children.iter().filter_map(|child| self.node(child)).collect();
        Some(node.snapshot(path, children))
    }

    /// Carries out an operator's, or a sibling's, wish, waits for its effect and records it.
    ///
    /// # Errors
    /// The path is unknown, the child does not allow it now, or the effect did not show in time.
    pub async fn command(&self, path: &str, verb: Verb, origin: &Origin) -> Result<Outcome, CommandError> {
        let Some(path) = self.resolve(path) else {
            return Err(CommandError::NotFound(path.to_owned()));
        };
        let node = &self.nodes()[&path];
        let before = node.vitals.state();
        let result = self.order(&path, node, verb).await;
        let outcome = result.as_ref().map_or_else(ToString::to_string, |()| "ok".to_owned());
        tracing::info!(path, verb = verb.name(), by = origin.by, reason = origin.reason, outcome, "command");
        node.vitals.event(EventKind::Commanded {
            verb: verb.name().to_owned(),
            by: origin.by.clone(),
            reason: origin.reason.clone(),
            outcome,
        });
        result.map(|()| Outcome { before, after: node.vitals.state() })
    }

    async fn order(&self, path: &str, node: &Node, verb: Verb) -> Result<(), CommandError> {
        let illegal = |text: String| Err(CommandError::Illegal(text));
        let wants_pause = matches!(verb, Verb::Pause | Verb::Resume);
        if verb == Verb::Panic && !self.inner.chaos.load(Relaxed) {
            return illegal("panics are injected only where chaos is allowed: set admin.chaos = true".to_owned());
        }
        if wants_pause && !node.pausable {
            let pausable = self.pausable_below(path);
            return illegal(match pausable.as_slice() {
                [] => format!("`{path}` cannot be paused: only sources and pools can"),
                some => format!("`{path}` cannot be paused; below it these can: {}", some.join(", ")),
            });
        }
        if wants_pause && node.kind == "pool" {
            for child in &node.children {
                self.give(child, &self.nodes()[child], verb).await?;
            }
            node.vitals.set_paused(verb == Verb::Pause);
            node.vitals.set_state(if verb == Verb::Pause { State::Paused } else { State::Running });
            return Ok(());
        }
        self.give(path, node, verb).await
    }

    async fn give(&self, path: &str, node: &Node, verb: Verb) -> Result<(), CommandError> {
        let Some((supervisor, index)) = &node.parent else {
            let text = "the root cannot be commanded: stop the process, or name a child";
            return Err(CommandError::Illegal(text.to_owned()));
        };
        let (order, answer) = Order::new(*index, verb);
        // A send error means that the supervisor is gone for good; the answer's error says so below.
        let _ = supervisor.send(order);
        match tokio::time::timeout(COMMAND_TIMEOUT, answer).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(OrderError::AlreadyRunning))) => {
                Err(CommandError::Illegal(format!("`{path}` is running already: use restart")))
            }
            Ok(Ok(Err(OrderError::Stopping)) | Err(_)) => {
                Err(CommandError::Illegal(format!("the supervisor of `{path}` is stopping")))
            }
            Err(_elapsed) => Err(CommandError::TimedOut(path.to_owned())),
        }
    }

    fn pausable_below(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        let below = self.nodes().iter().filter(|(other, node)| node.pausable && other.starts_with(&prefix));
        below.map(|(other, _)| other.clone()).collect()
    }

    /// Asks the console of the child at `path`.
    ///
    /// # Errors
    /// There is none, or no answer within [`CONSOLE_TIMEOUT`].
    pub async fn console(&self, path: &str, request: ConsoleRequest) -> Result<ConsoleReply, ConsoleCallError> {
        let node = self.resolve(path).and_then(|full| self.nodes().get(&full));
        let console = node.and_then(|node| node.console.clone());
        let console = console.ok_or_else(|| {
            let with: Vec<_> =
                self.nodes().iter().filter(|(_, n)| n.console.is_some()).map(|(p, _)| p.as_str()).collect();
            ConsoleCallError::NoConsole(format!("`{path}` has no console; these have: {}", with.join(", ")))
        })?;
        Ok(console.ask(request, CONSOLE_TIMEOUT).await?)
    }
}

impl Node {
    fn snapshot(&self, path: String, children: Vec<NodeSnapshot>) -> NodeSnapshot {
        let vitals = &self.vitals;
        let in_hand = vitals.in_hand().map(|(name, since)| (name, since.elapsed()));
        let busy = in_hand.is_some_and(|(_, span)| span > STUCK_AFTER);
        let state = vitals.state();
        NodeSnapshot {
            id: path.rsplit('/').next().unwrap_or(&path).to_owned(),
            label: self.label.clone(),
            kind: self.kind.to_owned(),
            state: state.name().to_owned(),
            stuck: state == State::Stuck || busy || vitals.arbiter_silence() > STUCK_AFTER,
            restart: self.restart.to_owned(),
            strategy: self.supervisor.map(|(strategy, _)| strategy.to_owned()),
            intensity: self.supervisor.map(|(_, limits)| limits.intensity),
            period_ms: self.supervisor.map(|(_, limits)| millis(limits.period)),
            pausable: self.pausable,
            console: self.console.is_some(),
            arbiter: vitals.arbiter_name().map(str::to_owned),
            incarnation: vitals.incarnation(),
            started_ms: vitals.started_ms(),
            restarts: vitals.restarts(),
            budget_left: vitals.budget_left(),
            last_exit: vitals.last_exit().map(|last| ExitSnapshot {
                kind: last.exit.kind().to_owned(),
                reason: last.exit.to_string(),
                at_ms: last.at_ms,
                in_hand: last.in_hand.map(str::to_owned),
            }),
            mailboxes: vitals.gauges().iter().map(|(name, gauge)| mailbox(name, gauge)).collect(),
            in_hand: in_hand.map(|(name, span)| InHandSnapshot { name: name.to_owned(), for_ms: millis(span) }),
            stale: vitals.stale(),
            link: vitals.link_state().map(|(kind, endpoint, link)| link_snapshot(kind, endpoint, link)),
            figures: vitals
                .figures()
                .iter()
                .map(|figure| FigureSnapshot {
                    name: figure.name.to_owned(),
                    unit: figure.unit.to_owned(),
                    kind: figure.kind,
                    value: figure.get(),
                })
                .collect(),
            children,
            path,
        }
    }
}

fn mailbox(name: &str, gauge: &crate::gauge::Gauge) -> MailboxSnapshot {
    let quantiles = |h: &crate::histogram::Histogram| [0.5, 0.95, 0.99].map(|q| h.quantile_us(q));
    MailboxSnapshot {
        name: name.to_owned(),
        depth: gauge.depth(),
        capacity: gauge.capacity(),
        high_water: gauge.high_water(),
        refused: gauge.refused(),
        handled: gauge.handled(),
        purged: gauge.purged(),
        messages: gauge
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
        state: String::new(),
        attempts: None,
        since_ms: None,
        reason: None,
        retry_in_ms: None,
    };
    match link {
        Link::Connecting { attempt } => {
            snapshot.state = "connecting".to_owned();
            snapshot.attempts = Some(attempt);
        }
        Link::Up { since_ms } => {
            snapshot.state = "up".to_owned();
            snapshot.since_ms = Some(since_ms);
        }
        Link::Down { since_ms, reason, retry_at } => {
            snapshot.state = "down".to_owned();
            snapshot.since_ms = Some(since_ms);
            snapshot.reason = Some(reason);
            snapshot.retry_in_ms = Some(millis(retry_at.saturating_duration_since(Instant::now())));
        }
    }
    snapshot
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
