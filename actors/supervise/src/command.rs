//! What an operator, or a sibling, asks of a supervisor about one of its children.

use std::time::Duration;

use tokio::sync::oneshot;

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Stop it and those that its supervisor's strategy takes along, and start them again; costs no restart budget.
    Restart,
    /// Stop it until it is started again.
    Stop,
    /// Start it after a stop.
    Start,
    /// Close its intake.
    Pause,
    /// Open its intake.
    Resume,
    /// Chaos: make it panic, to see it heal. A thread panics at the next work it begins.
    Panic,
    /// Chaos: block the arbiter that it runs on for 4 s, to see that flagged.
    Freeze,
}

/// How long [`Command::Freeze`] blocks an arbiter.
pub(crate) const FREEZE: Duration = Duration::from_secs(4);

impl Command {
    /// All of them.
    pub const ALL: [Command; 7] = [
        Command::Restart,
        Command::Stop,
        Command::Start,
        Command::Pause,
        Command::Resume,
        Command::Panic,
        Command::Freeze,
    ];

    /// Does harm on purpose: carried out only where chaos is allowed (see [`crate::Tree::allow_chaos`]).
    pub fn is_chaos(self) -> bool {
        matches!(self, Command::Panic | Command::Freeze)
    }

    /// The word used in URLs, the CLI and events.
    pub fn name(self) -> &'static str {
        match self {
            Command::Restart => "restart",
            Command::Stop => "stop",
            Command::Start => "start",
            Command::Pause => "pause",
            Command::Resume => "resume",
            Command::Panic => "panic",
            Command::Freeze => "freeze",
        }
    }

    /// The verb called `name`.
    pub fn parse(name: &str) -> Option<Command> {
        Command::ALL.into_iter().find(|verb| verb.name() == name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrderError {
    /// The supervisor is about to end.
    Stopping,
    /// The child runs already.
    AlreadyRunning,
    /// The child does not run.
    NotRunning,
    /// The child ended for good before it was up.
    Ended,
    /// A later order wants the opposite.
    Superseded,
    /// The child leaves the tree, or has left it.
    Removed,
}

/// An order on its way to a supervisor, which hands pause, resume and chaos on to the child's runner.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) index: usize,
    pub(crate) verb: Command,
    /// None: nobody waits for its effect.
    reply: Option<oneshot::Sender<Result<(), OrderError>>>,
}

impl Order {
    pub(crate) fn new(index: usize, verb: Command) -> (Self, oneshot::Receiver<Result<(), OrderError>>) {
        let (reply, answer) = oneshot::channel();
        (Self { index, verb, reply: Some(reply) }, answer)
    }

    /// An order whose effect nobody waits for.
    pub(crate) fn unanswered(index: usize, verb: Command) -> Self {
        Self { index, verb, reply: None }
    }

    /// Whoever waited for it does so no more: it is too late to carry it out.
    pub(crate) fn is_stale(&self) -> bool {
        self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    pub(crate) fn answer(self, result: Result<(), OrderError>) {
        // An operator who no longer waits does not need the answer.
        let _ = self.reply.map(|reply| reply.send(result));
    }
}

/// An order that is being carried out.
pub(crate) struct Waiter {
    pub(crate) order: Order,
    /// The incarnation when the order came: a restart is done when a later one is up.
    pub(crate) incarnation: u64,
}
