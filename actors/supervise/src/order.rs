//! What an operator, or a sibling, asks of a supervisor about one of its children.

use tokio::sync::oneshot;

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
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
    /// Chaos: make it panic, to see it heal. A thread panics at the next work it takes in hand.
    Panic,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 6] =
        [Verb::Restart, Verb::Stop, Verb::Start, Verb::Pause, Verb::Resume, Verb::Panic];

    /// The word used in URLs, the CLI and events.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Restart => "restart",
            Verb::Stop => "stop",
            Verb::Start => "start",
            Verb::Pause => "pause",
            Verb::Resume => "resume",
            Verb::Panic => "panic",
        }
    }

    /// The verb called `name`.
    pub fn parse(name: &str) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.name() == name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrderError {
    Stopping,
    AlreadyRunning,
}

pub(crate) struct Order {
    pub(crate) index: usize,
    pub(crate) verb: Verb,
    reply: oneshot::Sender<Result<(), OrderError>>,
}

impl Order {
    pub(crate) fn new(index: usize, verb: Verb) -> (Self, oneshot::Receiver<Result<(), OrderError>>) {
        let (reply, answer) = oneshot::channel();
        (Self { index, verb, reply }, answer)
    }

    pub(crate) fn answer(self, result: Result<(), OrderError>) {
        // An operator who no longer waits does not need the answer.
        let _ = self.reply.send(result);
    }
}

/// An order that is being carried out.
pub(crate) struct Waiter {
    pub(crate) index: usize,
    pub(crate) verb: Verb,
    /// The incarnation when the order came: a restart is done when a later one is up.
    pub(crate) incarnation: u64,
    reply: Option<oneshot::Sender<Result<(), OrderError>>>,
}

impl Waiter {
    pub(crate) fn new(order: Order, incarnation: u64) -> Self {
        Self { index: order.index, verb: order.verb, incarnation, reply: Some(order.reply) }
    }

    pub(crate) fn answer_in_place(&mut self, result: Result<(), OrderError>) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(result);
        }
    }

    pub(crate) fn answer(mut self, result: Result<(), OrderError>) {
        self.answer_in_place(result);
    }
}
