//! Registry of the tree: snapshots, events and commands.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use orchestrator_observe::{
    CrashLog, Event, EventKind, EventLog, NodeSnapshot, State, TreeSnapshot, Vitals, millis, now_ms,
};
use orchestrator_text::sanitize;
use parking_lot::RwLock;
use tokio::sync::mpsc;

use crate::{
    arbiter::Arbiters,
    child_state::ChildState,
    command::{Command, CommandRefusal, CommandRequest},
    node::Node,
};

/// Time that a command may take to have its effect.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Handle on the tree. Cheap to clone.
#[derive(Clone)]
pub struct Tree {
    inner: Arc<Inner>,
}

/// All children by path.
pub(crate) type Nodes = BTreeMap<String, Arc<Node>>;

struct Inner {
    root: String,
    nodes: RwLock<Nodes>,
    events: EventLog,
    crashes: CrashLog,
    since: Instant,
    arbiters: Arbiters,
    chaos: bool,
    link_retry_max: Duration,
}

/// Origin of a command.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// User, as far as known, for example `uid 0 over a unix socket`.
    pub by: String,
    /// Reason, in the operator's words.
    pub reason: String,
}

/// State of a child before and after a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// State before.
    pub before: State,
    /// State after.
    pub after: State,
    /// True if the command acts later: a thread panics at the next work item that it begins.
    pub acts_later: bool,
}

/// Reason why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The path names no child.
    #[error("there is no child `{0}`")]
    NotFound(String),
    /// A panic or freeze, by its name, in a tree without
    /// [`allow_chaos`](crate::SupervisorSpec::allow_chaos).
    #[error("the tree allows no {0}")]
    NoChaos(&'static str),
    /// The child does not allow the command now; the text says why and what to do.
    #[error("{0}")]
    Illegal(String),
    /// The command was sent, but had no effect within 10 s.
    #[error("the command had no effect on `{0}` within {COMMAND_TIMEOUT:?}: check its state in the tree")]
    TimedOut(String),
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("root", &self.inner.root).finish_non_exhaustive()
    }
}

impl Tree {
    pub(crate) fn new(root: &str, link_retry_max: Duration, chaos: bool) -> Self {
        Self {
            inner: Arc::new(Inner {
                root: root.to_owned(),
                nodes: RwLock::default(),
                events: EventLog::default(),
                crashes: CrashLog::default(),
                since: Instant::now(),
                arbiters: Arbiters::default(),
                chaos,
                link_retry_max,
            }),
        }
    }

    pub(crate) fn new_child(&self, path: &str) -> Arc<ChildState> {
        let Inner { events, crashes, link_retry_max, .. } = &*self.inner;
        ChildState::new(path, events.clone(), crashes.clone(), *link_retry_max)
    }

    pub(crate) fn arbiters(&self) -> &Arbiters {
        &self.inner.arbiters
    }

    pub(crate) fn populate(&self, nodes: Nodes) {
        *self.inner.nodes.write() = nodes;
    }

    /// Adds the child at `path` with its subtree below the child at `above`.
    pub(crate) fn insert_subtree(&self, above: &str, path: &str, nodes: Nodes) {
        let mut known = self.inner.nodes.write();
        known.extend(nodes);
        if let Some(above) = known.get(above) {
            above.children.lock().push(path.to_owned());
        }
    }

    pub(crate) fn remove_subtree(&self, path: &str) {
        let below = format!("{path}/");
        let mut known = self.inner.nodes.write();
        known.retain(|other, _| other != path && !other.starts_with(&below));
        if let Some((above, _)) = path.rsplit_once('/')
            && let Some(above) = known.get(above)
        {
            above.children.lock().retain(|child| child != path);
        }
    }

    pub(crate) fn find(&self, path: &str) -> Option<Arc<Node>> {
        self.inner.nodes.read().get(path).cloned()
    }

    /// Log of all events.
    pub fn event_log(&self) -> &EventLog {
        &self.inner.events
    }

    /// Log of crashes.
    pub fn crash_log(&self) -> &CrashLog {
        &self.inner.crashes
    }

    /// Events after `seq`, oldest first.
    pub fn events(&self, seq: u64) -> Vec<Event> {
        self.inner.events.since(seq)
    }

    /// Paths of all children, in alphabetical order.
    pub fn paths(&self) -> Vec<String> {
        self.paths_of(|_, _| true)
    }

    /// Full path of the child at `path`, which may omit the root's name; None if there is no such child.
    pub fn resolve(&self, path: &str) -> Option<String> {
        let path = path.trim_matches('/');
        let full = if path.is_empty() { self.inner.root.clone() } else { path.to_owned() };
        let below = format!("{}/{path}", self.inner.root);
        let known = self.inner.nodes.read();
        [full, below].into_iter().find(|candidate| known.contains_key(candidate))
    }

    /// State of the child at `path`.
    pub fn child(&self, path: &str) -> Option<Arc<ChildState>> {
        Some(self.find(&self.resolve(path)?)?.child.clone())
    }

    /// The value of type `T` that [`ChildSpec::attach`](crate::ChildSpec::attach) has added to the child at
    /// `path`. None if there is no such child, or it has none.
    pub fn attached<T: Send + Sync + 'static>(&self, path: &str) -> Option<Arc<T>> {
        self.find(&self.resolve(path)?)?.attached.get()
    }

    /// All children with a value of type `T`: their paths, in alphabetical order, and values.
    pub fn all_attached<T: Send + Sync + 'static>(&self) -> Vec<(String, Arc<T>)> {
        let known = self.inner.nodes.read();
        known.iter().filter_map(|(path, node)| Some((path.clone(), node.attached.get()?))).collect()
    }

    /// Metrics, link and work that the child at `path` reports.
    pub fn vitals(&self, path: &str) -> Option<Arc<Vitals>> {
        Some(self.child(path)?.vitals().clone())
    }

    /// Reads what children have reported, so that a stuck one does not delay it.
    pub fn snapshot(&self) -> TreeSnapshot {
        TreeSnapshot {
            seq: self.inner.events.newest(),
            captured_at_ms: now_ms(),
            uptime_ms: millis(self.inner.since.elapsed()),
            root: self.node(&self.inner.root).expect("the root is always there"),
        }
    }

    /// Returns a snapshot of the child at `path` with its subtree.
    pub fn node(&self, path: &str) -> Option<NodeSnapshot> {
        let path = self.resolve(path)?;
        snapshot(&self.inner.nodes.read(), path)
    }

    /// Carries out a command, waits for its effect, and records it as an event.
    ///
    /// # Errors
    /// The path names no child, the child does not allow the command now, or there was no effect within 10 s.
    pub async fn command(
        &self,
        path: &str,
        command: Command,
        origin: &Origin,
    ) -> Result<StateChange, CommandError> {
        let Some(path) = self.resolve(path) else {
            return Err(CommandError::NotFound(path.to_owned()));
        };
        let Some(node) = self.find(&path) else { return Err(CommandError::NotFound(path)) };
        let before = node.child.state();
        let mut record =
            CommandRecord { child: &node.child, command, origin, outcome: SENT_UNSEEN.to_owned() };
        let result = self.run_command(&path, &node, command).await;
        let acts_later = command == Command::Panic && node.kind == "thread";
        let done = if acts_later { "ok, at the next work item" } else { "ok" };
        record.outcome = result.as_ref().map_or_else(ToString::to_string, |()| done.to_owned());
        drop(record);
        result.map(|()| StateChange { before, after: node.child.state(), acts_later })
    }

    /// Requests a restart of the child at `path` with the siblings that its supervisor's strategy affects,
    /// and returns at once.
    ///
    /// For a child that needs a sibling, or itself, restarted. It costs no restart budget. The new
    /// incarnation can report its start by a message.
    ///
    /// # Errors
    /// The path names no child, or the supervisor does not run.
    pub fn request_restart(&self, path: &str, origin: &Origin) -> Result<(), CommandError> {
        let Some(path) = self.resolve(path) else {
            return Err(CommandError::NotFound(path.to_owned()));
        };
        let Some(node) = self.find(&path) else { return Err(CommandError::NotFound(path)) };
        let mut record =
            CommandRecord { child: &node.child, command: Command::Restart, origin, outcome: SENT.to_owned() };
        let given = self.supervisor_of(&path, &node).and_then(|(supervisor, index)| {
            let stopping = |_| CommandError::Illegal(format!("the supervisor of `{path}` is stopping"));
            supervisor.send(CommandRequest::unanswered(index, Command::Restart)).map_err(stopping)
        });
        if let Err(error) = &given {
            record.outcome = error.to_string();
        }
        given
    }

    async fn run_command(&self, path: &str, node: &Node, command: Command) -> Result<(), CommandError> {
        let illegal = |text: String| Err(CommandError::Illegal(text));
        let wants_pause = matches!(command, Command::Pause(_) | Command::Resume);
        if command.is_chaos() && !self.inner.chaos {
            return Err(CommandError::NoChaos(command.name()));
        }
        if wants_pause && !node.pausable {
            let below = format!("{path}/");
            let pausable = self.paths_of(|path, node| node.pausable && path.starts_with(&below));
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
            let members = members.iter().map(|(path, node)| self.send_command(path, node, command));
            // Every member gets the command, even if one refuses it.
            join_all(members).await.into_iter().collect::<Result<(), _>>()?;
        }
        self.send_command(path, node, command).await
    }

    async fn send_command(&self, path: &str, node: &Node, command: Command) -> Result<(), CommandError> {
        let (supervisor, index) = self.supervisor_of(path, node)?;
        let illegal = |text: String| Err(CommandError::Illegal(text));
        let (request, answer) = CommandRequest::new(index, command);
        // If the supervisor is gone for good, the answer is an error, too.
        let _ = supervisor.send(request);
        match tokio::time::timeout(COMMAND_TIMEOUT, answer).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(CommandRefusal::AlreadyRunning))) => {
                illegal(format!("`{path}` is running already: use restart"))
            }
            Ok(Ok(Err(CommandRefusal::NotRunning))) => {
                illegal(format!("`{path}` does not run: start it first"))
            }
            Ok(Ok(Err(CommandRefusal::Ended))) => {
                illegal(format!("`{path}` ended before it was up: see its last exit in the tree"))
            }
            Ok(Ok(Err(CommandRefusal::Superseded))) => illegal(format!(
                "a later command for `{path}` contradicts this one: check its state in the tree"
            )),
            Ok(Ok(Err(CommandRefusal::Removed))) => illegal(format!("`{path}` leaves the tree")),
            Ok(Ok(Err(CommandRefusal::Stopping)) | Err(_)) => {
                illegal(format!("the supervisor of `{path}` is stopping"))
            }
            Err(_elapsed) => Err(CommandError::TimedOut(path.to_owned())),
        }
    }

    /// The number is the position of the child in its supervisor.
    fn supervisor_of<'a>(
        &self,
        path: &str,
        node: &'a Node,
    ) -> Result<(&'a mpsc::UnboundedSender<CommandRequest>, usize), CommandError> {
        let Some((supervisor, index)) = &node.parent else {
            let text = "the root cannot be commanded: stop the process, or name a child";
            return Err(CommandError::Illegal(text.to_owned()));
        };
        let above = path.rsplit_once('/').map_or(path, |(above, _)| above);
        let above_state = self.find(above).map(|above| above.child.state());
        if matches!(above_state, Some(State::Stopped | State::BackingOff | State::GivenUp)) {
            let text = format!("the supervisor of `{path}` does not run: start `{above}` first");
            return Err(CommandError::Illegal(text));
        }
        Ok((supervisor, *index))
    }

    /// Logs a command that the child at `path` has carried out or refused by itself, and records its event.
    /// `verb` is as on a command line.
    pub fn record_command(&self, path: &str, verb: &str, origin: &Origin, outcome: &str) {
        if let Some(child) = self.child(path) {
            record_command(&child, verb, origin, outcome);
        }
    }

    /// Paths of the children for which `which` is true, in alphabetical order.
    pub(crate) fn paths_of(&self, which: impl Fn(&str, &Node) -> bool) -> Vec<String> {
        let known = self.inner.nodes.read();
        known.iter().filter(|(path, node)| which(path, node)).map(|(path, _)| path.clone()).collect()
    }
}

fn snapshot(nodes: &Nodes, path: String) -> Option<NodeSnapshot> {
    let node = nodes.get(&path)?;
    let children = node.children.lock().clone();
    let children = children.into_iter().filter_map(|child| snapshot(nodes, child)).collect();
    Some(node.snapshot(path, children))
}

/// Outcome of a command whose caller was dropped before its effect, for example an endpoint that restarts
/// itself.
const SENT_UNSEEN: &str = "sent, effect not seen";
/// Outcome of a restart request, whose effect is not awaited.
const SENT: &str = "sent";

/// Logs a command and records its event when dropped, also if the caller gives up.
struct CommandRecord<'a> {
    child: &'a ChildState,
    command: Command,
    origin: &'a Origin,
    outcome: String,
}

impl Drop for CommandRecord<'_> {
    fn drop(&mut self) {
        record_command(self.child, self.command.name(), self.origin, &self.outcome);
    }
}

fn record_command(child: &ChildState, verb: &str, origin: &Origin, outcome: &str) {
    let [verb, by, reason, outcome] = [verb, &origin.by, &origin.reason, outcome].map(sanitize);
    tracing::info!(path = child.path(), verb, by, reason, outcome, "command");
    child.event(EventKind::Commanded { verb, by, reason, outcome });
}
