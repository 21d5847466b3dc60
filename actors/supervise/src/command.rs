//! Commands to a supervisor about one of its children, from an operator or a sibling.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::pause_state::PauseSpan;

/// Command about one child of a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Stop the child and the siblings that its supervisor's strategy affects, and start them again. Costs no
    /// restart budget.
    Restart,
    /// Stop the child until it is started again.
    Stop,
    /// Start a stopped child.
    Start,
    /// Stop taking new messages and items.
    Pause(PauseSpan),
    /// Take messages and items again.
    Resume,
    /// Chaos: make the child panic. A thread panics at the next work item that it begins.
    Panic,
    /// Chaos: block the arbiter of the child for 4 s.
    Freeze,
}

/// Time that [`Command::Freeze`] blocks an arbiter.
pub(crate) const FREEZE: Duration = Duration::from_secs(4);

impl Command {
    /// All commands.
    pub const ALL: [Command; 7] = [
        Command::Restart,
        Command::Stop,
        Command::Start,
        Command::Pause(PauseSpan { until_ms: None }),
        Command::Resume,
        Command::Panic,
        Command::Freeze,
    ];

    /// Returns true if the command does harm on purpose; it then needs
    /// [`SupervisorSpec::allow_chaos`](crate::SupervisorSpec::allow_chaos).
    pub fn is_chaos(self) -> bool {
        matches!(self, Command::Panic | Command::Freeze)
    }

    /// Name in URLs, the CLI and events.
    pub fn name(self) -> &'static str {
        match self {
            Command::Restart => "restart",
            Command::Stop => "stop",
            Command::Start => "start",
            Command::Pause(_) => "pause",
            Command::Resume => "resume",
            Command::Panic => "panic",
            Command::Freeze => "freeze",
        }
    }

    /// None for an unknown name.
    pub fn parse(name: &str) -> Option<Command> {
        Command::ALL.into_iter().find(|command| command.name() == name)
    }
}

/// Reason why a supervisor refuses a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandRefusal {
    /// The supervisor is about to end.
    Stopping,
    AlreadyRunning,
    NotRunning,
    /// The child ended for good before it was up.
    Ended,
    /// A later command contradicts this one.
    Superseded,
    /// The child leaves the tree, or has left it.
    Removed,
}

/// A command on its way to a supervisor, which passes pause, resume and chaos on to the child's runner.
#[derive(Debug)]
pub(crate) struct CommandRequest {
    pub(crate) index: usize,
    pub(crate) command: Command,
    /// None if nobody waits for the effect.
    reply: Option<oneshot::Sender<Result<(), CommandRefusal>>>,
}

impl CommandRequest {
    pub(crate) fn new(
        index: usize,
        command: Command,
    ) -> (Self, oneshot::Receiver<Result<(), CommandRefusal>>) {
        let (reply, answer) = oneshot::channel();
        (Self { index, command, reply: Some(reply) }, answer)
    }

    /// Creates a request whose effect nobody waits for.
    pub(crate) fn unanswered(index: usize, command: Command) -> Self {
        Self { index, command, reply: None }
    }

    /// True if the caller gave up before the command was carried out.
    pub(crate) fn is_stale(&self) -> bool {
        self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    pub(crate) fn answer(self, result: Result<(), CommandRefusal>) {
        // A caller that gave up does not need the answer.
        let _ = self.reply.map(|reply| reply.send(result));
    }
}

/// A command being carried out.
pub(crate) struct PendingCommand {
    pub(crate) request: CommandRequest,
    /// Incarnation when the command came: a restart is complete once a later one is up.
    pub(crate) incarnation: u64,
}
