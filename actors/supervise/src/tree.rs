//! The registry: what runs, what happened, and the one way to steer it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use parking_lot::RwLock;
use tokio::sync::mpsc;

use crate::{
    State, Vitals,
    arbiter::Arbiters,
    command::{Command, Order, OrderError},
    console::{ConsoleReply, ConsoleRequest},
    event::{Event, EventKind, EventLog, now_ms},
    node::{Node, millis},
    refusal::AskError,
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

/// Every child, by path.
pub(crate) type Nodes = BTreeMap<String, Arc<Node>>;

struct Inner {
    root: String,
    nodes: RwLock<Nodes>,
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
pub struct StateChange {
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
                nodes: RwLock::default(),
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

    pub(crate) fn populate(&self, nodes: Nodes) {
        *self.inner.nodes.write() = nodes;
    }

    /// Puts the child at `path`, and what is below it, under the child at `above`.
    pub(crate) fn adopt(&self, above: &str, path: &str, nodes: Nodes) {
        let mut known = self.inner.nodes.write();
        known.extend(nodes);
        if let Some(above) = known.get(above) {
            above.children.lock().push(path.to_owned());
        }
    }

    /// Takes the child at `path`, and what is below it, out of the tree.
    pub(crate) fn disown(&self, path: &str) {
        let below = format!("{path}/");
        let mut known = self.inner.nodes.write();
        known.retain(|other, _| other != path && !other.starts_with(&below));
        if let Some((above, _)) = path.rsplit_once('/')
            && let Some(above) = known.get(above)
        {
            above.children.lock().retain(|child| child != path);
        }
    }

    fn find(&self, path: &str) -> Option<Arc<Node>> {
        self.inner.nodes.read().get(path).cloned()
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
        self.inner.nodes.read().keys().cloned().collect()
    }

    /// Lets [`Command::Panic`] and [`Command::Freeze`] through from now on. Off by default: only tests and drills want it.
    pub fn allow_chaos(&self) {
        self.inner.chaos.store(true, Relaxed);
    }

    /// The full path for `path`, which may leave out the root's name.
    pub fn resolve(&self, path: &str) -> Option<String> {
        let path = path.trim_matches('/');
        let full = if path.is_empty() { self.inner.root.clone() } else { path.to_owned() };
        let below = format!("{}/{path}", self.inner.root);
        let known = self.inner.nodes.read();
        [full, below].into_iter().find(|candidate| known.contains_key(candidate))
    }

    /// The vitals of the child at `path`.
    pub fn vitals(&self, path: &str) -> Option<Arc<Vitals>> {
        Some(self.find(&self.resolve(path)?)?.vitals.clone())
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
        snapshot(&self.inner.nodes.read(), path)
    }

    /// Carries out an operator's, or a sibling's, wish, waits for its effect and records it.
    ///
    /// # Errors
    /// The path is unknown, the child does not allow it now, or the effect did not show in time.
    pub async fn command(
        &self,
        path: &str,
        verb: Command,
        origin: &Origin,
    ) -> Result<StateChange, CommandError> {
        let Some(path) = self.resolve(path) else {
            return Err(CommandError::NotFound(path.to_owned()));
        };
        let Some(node) = self.find(&path) else { return Err(CommandError::NotFound(path)) };
        let before = node.vitals.state();
        let mut record = Record { vitals: &node.vitals, verb, origin, outcome: UNSEEN.to_owned() };
        let result = self.order(&path, &node, verb).await;
        record.outcome = result.as_ref().map_or_else(ToString::to_string, |()| "ok".to_owned());
        drop(record);
        result.map(|()| StateChange { before, after: node.vitals.state() })
    }

    /// Asks the supervisor above `path` to restart that child, with those that its strategy takes along, and returns at once: a child's
    /// way to have a sibling, or itself, started anew. It costs no restart budget. What has to follow the restart is up to a message
    /// from the new incarnation.
    ///
    /// # Errors
    /// The path is unknown, or its supervisor does not run.
    pub fn request_restart(&self, path: &str, origin: &Origin) -> Result<(), CommandError> {
        let Some(path) = self.resolve(path) else {
            return Err(CommandError::NotFound(path.to_owned()));
        };
        let Some(node) = self.find(&path) else { return Err(CommandError::NotFound(path)) };
        let mut record =
            Record { vitals: &node.vitals, verb: Command::Restart, origin, outcome: GIVEN.to_owned() };
        let given = self.supervisor_of(&path, &node).and_then(|(supervisor, index)| {
            let stopping = |_| CommandError::Illegal(format!("the supervisor of `{path}` is stopping"));
            supervisor.send(Order::unanswered(index, Command::Restart)).map_err(stopping)
        });
        if let Err(error) = &given {
            record.outcome = error.to_string();
        }
        given
    }

    async fn order(&self, path: &str, node: &Node, verb: Command) -> Result<(), CommandError> {
        let illegal = |text: String| Err(CommandError::Illegal(text));
        let wants_pause = matches!(verb, Command::Pause | Command::Resume);
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
            let members: Vec<_> = node
                .children
                .lock()
                .iter()
                .filter_map(|path| Some((path.clone(), self.find(path)?)))
                .collect();
            let members = members.iter().map(|(path, node)| self.give(path, node, verb));
            // All of them are told, whatever one answers.
            join_all(members).await.into_iter().collect::<Result<(), _>>()?;
            let states = [State::Running, State::Paused];
            let [from, to] = if verb == Command::Pause { states } else { [states[1], states[0]] };
            node.vitals.set_paused(verb == Command::Pause);
            node.vitals.shift_state(from, to);
            return Ok(());
        }
        self.give(path, node, verb).await
    }

    async fn give(&self, path: &str, node: &Node, verb: Command) -> Result<(), CommandError> {
        let (supervisor, index) = self.supervisor_of(path, node)?;
        let illegal = |text: String| Err(CommandError::Illegal(text));
        let (order, answer) = Order::new(index, verb);
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
            Ok(Ok(Err(OrderError::Removed))) => {
                illegal(format!("`{path}` leaves the tree: it is no child any more"))
            }
            Ok(Ok(Err(OrderError::Stopping)) | Err(_)) => {
                illegal(format!("the supervisor of `{path}` is stopping"))
            }
            Err(_elapsed) => Err(CommandError::TimedOut(path.to_owned())),
        }
    }

    /// The supervisor of the child at `path`, and the child's position below it.
    fn supervisor_of<'a>(
        &self,
        path: &str,
        node: &'a Node,
    ) -> Result<(&'a mpsc::UnboundedSender<Order>, usize), CommandError> {
        let Some((supervisor, index)) = &node.parent else {
            let text = "the root cannot be commanded: stop the process, or name a child";
            return Err(CommandError::Illegal(text.to_owned()));
        };
        let above = path.rsplit_once('/').map_or(path, |(above, _)| above);
        let above_state = self.find(above).map(|above| above.vitals.state());
        if matches!(above_state, Some(State::Stopped | State::BackingOff)) {
            let text = format!("the supervisor of `{path}` does not run: start `{above}` first");
            return Err(CommandError::Illegal(text));
        }
        Ok((supervisor, *index))
    }

    fn pausable_below(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        let known = self.inner.nodes.read();
        let below = known.iter().filter(|(other, node)| node.pausable && other.starts_with(&prefix));
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
        let node = self.resolve(path).and_then(|full| self.find(&full));
        let console = node.and_then(|node| node.console.clone());
        let console = console.ok_or_else(|| {
            let known = self.inner.nodes.read();
            let with: Vec<_> =
                known.iter().filter(|(_, n)| n.console.is_some()).map(|(p, _)| p.as_str()).collect();
            ConsoleCallError::NoConsole(format!("`{path}` has no console; these have: {}", with.join(", ")))
        })?;
        Ok(console.ask(request, CONSOLE_TIMEOUT).await?)
    }
}

/// The child at `path` and all below it, read under one lock.
fn snapshot(nodes: &Nodes, path: String) -> Option<NodeSnapshot> {
    let node = nodes.get(&path)?;
    let children = node.children.lock().clone();
    let children = children.into_iter().filter_map(|child| snapshot(nodes, child)).collect();
    Some(node.snapshot(path, children))
}

/// Outcome of a command whose asker did not stay until its effect showed: an endpoint that restarts itself.
const UNSEEN: &str = "given, effect not seen";
/// Outcome of a request whose effect nobody waits for.
const GIVEN: &str = "given";

/// Puts a command into log and events when it is over, also where its asker is dropped before that.
struct Record<'a> {
    vitals: &'a Vitals,
    verb: Command,
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
