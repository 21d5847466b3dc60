//! The registry: what runs, what happened, and the one way to steer it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;

use crate::{
    State, Vitals,
    arbiter::Arbiters,
    console::{ConsoleReply, ConsoleRequest},
    event::{Event, EventKind, EventLog, now_ms},
    mailbox::AskError,
    node::{Node, millis},
    order::{Order, OrderError, Verb},
    snapshot::*,
    text::sanitize,
};

/// Longest time that a command waits for its effect.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time that a console may take to answer.
pub const CONSOLE_TIMEOUT: Duration = Duration::from_secs(2);

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

    /// Lets [`Verb::Panic`] and [`Verb::Freeze`] through from now on. Off by default: only tests and drills want it.
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
        let mut record = Record { vitals: &node.vitals, verb, origin, outcome: UNSEEN.to_owned() };
        let result = self.order(&path, node, verb).await;
        record.outcome = result.as_ref().map_or_else(ToString::to_string, |()| "ok".to_owned());
        drop(record);
        result.map(|()| Outcome { before, after: node.vitals.state() })
    }

    async fn order(&self, path: &str, node: &Node, verb: Verb) -> Result<(), CommandError> {
        let illegal = |text: String| Err(CommandError::Illegal(text));
        let wants_pause = matches!(verb, Verb::Pause | Verb::Resume);
        if verb.is_chaos() && !self.inner.chaos.load(Relaxed) {
            return illegal(format!(
                "{} is only where chaos is allowed: set admin.chaos = true",
                verb.name()
            ));
        }
        if wants_pause && !node.pausable {
            let pausable = self.pausable_below(path);
            return illegal(match pausable.as_slice() {
                [] => format!("`{path}` cannot be paused: only sources and pools can"),
                some => format!("`{path}` cannot be paused; below it these can: {}", some.join(", ")),
            });
        }
        if wants_pause && node.kind == "pool" {
            let members = node.children.iter().map(|child| self.give(child, &self.nodes()[child], verb));
            // All of them are told, whatever one answers.
            join_all(members).await.into_iter().collect::<Result<(), _>>()?;
            let states = [State::Running, State::Paused];
            let [from, to] = if verb == Verb::Pause { states } else { [states[1], states[0]] };
            node.vitals.set_paused(verb == Verb::Pause);
            node.vitals.shift_state(from, to);
            return Ok(());
        }
        self.give(path, node, verb).await
    }

    async fn give(&self, path: &str, node: &Node, verb: Verb) -> Result<(), CommandError> {
        let Some((supervisor, index)) = &node.parent else {
            let text = "the root cannot be commanded: stop the process, or name a child";
            return Err(CommandError::Illegal(text.to_owned()));
        };
        let illegal = |text: String| Err(CommandError::Illegal(text));
        let above = path.rsplit_once('/').map_or(path, |(above, _)| above);
        if matches!(self.nodes()[above].vitals.state(), State::Stopped | State::BackingOff) {
            return illegal(format!("the supervisor of `{path}` does not run: start `{above}` first"));
        }
        let (order, answer) = Order::new(*index, verb);
        // A send error means that the supervisor is gone for good; the answer's error says so below.
        let _ = supervisor.send(order);
        match tokio::time::timeout(COMMAND_TIMEOUT, answer).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(OrderError::AlreadyRunning))) => {
                illegal(format!("`{path}` is running already: use restart"))
            }
            Ok(Ok(Err(OrderError::NotRunning))) => illegal(format!("`{path}` does not run: start it first")),
            Ok(Ok(Err(OrderError::Ended))) => {
                illegal(format!("`{path}` ended before it was up: look at its last exit in the tree"))
            }
            Ok(Ok(Err(OrderError::Superseded))) => illegal(format!(
                "another command for `{path}` came in between: look at its state in the tree"
            )),
            Ok(Ok(Err(OrderError::Stopping)) | Err(_)) => {
                illegal(format!("the supervisor of `{path}` is stopping"))
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
    pub async fn console(
        &self,
        path: &str,
        request: ConsoleRequest,
    ) -> Result<ConsoleReply, ConsoleCallError> {
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

/// Outcome of a command whose asker did not stay until its effect showed: an endpoint that restarts itself.
const UNSEEN: &str = "given, effect not seen";

/// Puts a command into log and events when it is over, also where its asker is dropped before that.
struct Record<'a> {
    vitals: &'a Vitals,
    verb: Verb,
    origin: &'a Origin,
    outcome: String,
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        let (path, verb) = (self.vitals.path(), self.verb.name());
        let [by, reason, outcome] = [&self.origin.by, &self.origin.reason, &self.outcome].map(sanitize);
        tracing::info!(path, verb, by, reason, outcome, "command");
        self.vitals.event(EventKind::Commanded { verb: verb.to_owned(), by, reason, outcome });
    }
}
