//! What to run and how to treat it.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot};

use crate::{
    ChildrenError, Durable, Fault, Limits, Restart, StartCx, Strategy,
    body::{Body, BodyCx, actor::ActorBody, task::TaskBody, thread::ThreadBody},
    child::Child,
    console::ConsoleRequest,
    inbox::InboxSlot,
    mailbox::{MailboxSlot, Recipient},
};

/// A child of a supervisor.
pub struct ChildSpec {
    pub(crate) id: String,
    pub(crate) label: Option<String>,
    pub(crate) start: Start,
    pub(crate) restart: Restart,
    pub(crate) shutdown: Shutdown,
    pub(crate) placement: Placement,
    pub(crate) on_restart: OnRestart,
    pub(crate) pausable: bool,
    pub(crate) console: Option<Recipient<ConsoleRequest>>,
    pub(crate) durable: Box<[&'static str]>,
}

/// What a child is.
pub enum Start {
    /// An actor, a task or a thread.
    Worker(Factory),
    /// A fixed number of equal workers (OTP: simple_one_for_one); they stop all at once under one deadline.
    Pool {
        /// How many.
        count: usize,
        /// Makes the factory of worker `index`.
        start: Box<dyn Fn(usize) -> Factory + Send>,
        /// Gives the label of worker `index`.
        label: Option<Box<dyn Fn(usize) -> String + Send>>,
    },
    /// A supervisor with children of its own.
    Supervisor(SupervisorSpec),
    /// A one_for_one supervisor whose children are added and removed while it exists (OTP: simple_one_for_one); they stop all at once.
    Dynamic {
        /// Limits, and the children that are there from the beginning.
        spec: SupervisorSpec,
        /// The receiving end of [`Children`].
        slot: ChildrenSlot,
    },
}

/// Adds and removes children of a dynamic supervisor. Cheap to clone; made by [`children`](crate::children).
#[derive(Clone)]
pub struct Children {
    pub(crate) changes: mpsc::Sender<Change>,
}

/// The receiving end of [`Children`], to be put into one [`ChildSpec::dynamic`].
pub struct ChildrenSlot {
    pub(crate) changes: mpsc::Receiver<Change>,
    pub(crate) max: usize,
}

/// A change of a dynamic supervisor's children.
pub(crate) struct Change {
    pub(crate) what: Edit,
    pub(crate) reply: oneshot::Sender<Result<(), ChildrenError>>,
}

pub(crate) enum Edit {
    Add(Box<ChildSpec>),
    Replace(Box<ChildSpec>),
    Remove(String),
}

/// How long a child may take to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Dropped at once (OTP: brutal_kill).
    Kill,
    /// Drained, and dropped when the time is over.
    After(Duration),
    /// Waited for. For supervisors only: a worker that hangs would hang the process.
    Infinity,
}

/// On which arbiter thread children run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// On the parent's.
    #[default]
    Inherit,
    /// On a thread of its own; for a supervisor: one that its children share.
    Dedicated,
    /// For a pool: its workers are spread over so many threads.
    Spread(usize),
}

/// What becomes of the messages that wait when a child is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRestart {
    /// The next incarnation handles them.
    #[default]
    Keep,
    /// They are dropped: they speak of a world that is gone.
    Purge,
}

/// A supervisor's strategy, limits and children, in start order: sinks first, sources last.
#[derive(Debug)]
pub struct SupervisorSpec {
    pub(crate) strategy: Strategy,
    pub(crate) limits: Limits,
    pub(crate) children: Vec<ChildSpec>,
}

/// Makes incarnations of one child.
pub struct Factory {
    pub(crate) make: Box<dyn FnOnce(BodyCx) -> Box<dyn Body> + Send>,
    pub(crate) kind: &'static str,
}

impl Factory {
    /// An actor behind the mailbox that `slot` belongs to; `make` gives a fresh instance at every start.
    pub fn actor<A: Child>(
        slot: MailboxSlot<A>,
        make: impl FnMut(&StartCx) -> Result<A, Fault> + Send + 'static,
    ) -> Self {
        let make = move |cx: BodyCx| Box::new(ActorBody::new(slot, make, &cx.vitals)) as Box<dyn Body>;
        Self { make: Box::new(make), kind: "actor" }
    }

    /// A future, made afresh at every start, that ends soon after `cx.stop` is cancelled.
    pub fn task<Fut>(make: impl FnMut(StartCx) -> Fut + Send + 'static) -> Self
    where
        Fut: Future<Output = Result<(), Fault>> + 'static,
    {
        let make = move |_cx: BodyCx| Box::new(TaskBody::new(make)) as Box<dyn Body>;
        Self { make: Box::new(make), kind: "task" }
    }

    /// A thread that runs `run` at every start and ends soon after `cx.stop` is cancelled.
    /// A thread cannot be dropped: one that does not end at its deadline is shown as stuck, and no second one is started beside it.
    pub fn thread(run: impl Fn(StartCx) -> Result<(), Fault> + Send + Sync + 'static) -> Self {
        let run = Arc::new(run);
        let make = move |_cx: BodyCx| Box::new(ThreadBody::new(run)) as Box<dyn Body>;
        Self { make: Box::new(make), kind: "thread" }
    }

    /// Shows the inbox `name` of a task or thread in the tree, and purges it with the child.
    #[must_use]
    pub fn with_inbox<T: Send + 'static>(self, name: &'static str, slot: &InboxSlot<T>) -> Self {
        let gauge = slot.gauge().clone();
        let inner = self.make;
        let make = move |cx: BodyCx| {
            cx.vitals.add_gauge(name, gauge);
            inner(cx)
        };
        Self { make: Box::new(make), kind: self.kind }
    }
}

impl ChildSpec {
    /// A permanent worker with 5 s to stop.
    pub fn worker(id: impl Into<String>, factory: Factory) -> Self {
        Self::new(id, Start::Worker(factory), Shutdown::After(Duration::from_secs(5)))
    }

    /// A permanent pool of `count` workers that together have 5 s to stop.
    pub fn pool(
        id: impl Into<String>,
        count: usize,
        start: impl Fn(usize) -> Factory + Send + 'static,
    ) -> Self {
        let start = Start::Pool { count, start: Box::new(start), label: None };
        Self::new(id, start, Shutdown::After(Duration::from_secs(5)))
    }

    /// Names that people know the workers of a pool by; other children have one [`label`](Self::label).
    #[must_use]
    pub fn worker_labels(mut self, of: impl Fn(usize) -> String + Send + 'static) -> Self {
        if let Start::Pool { label, .. } = &mut self.start {
            *label = Some(Box::new(of));
        }
        self
    }

    /// A permanent supervisor that is waited for.
    pub fn supervisor(id: impl Into<String>, spec: SupervisorSpec) -> Self {
        Self::new(id, Start::Supervisor(spec), Shutdown::Infinity)
    }

    /// A permanent one_for_one supervisor with the limits and first children of `spec`; further ones come and go through the
    /// [`Children`] that `slot` belongs to.
    pub fn dynamic(id: impl Into<String>, spec: SupervisorSpec, slot: ChildrenSlot) -> Self {
        Self::new(id, Start::Dynamic { spec, slot }, Shutdown::Infinity)
    }

    fn new(id: impl Into<String>, start: Start, shutdown: Shutdown) -> Self {
        Self {
            id: id.into(),
            label: None,
            start,
            restart: Restart::Permanent,
            shutdown,
            placement: Placement::Inherit,
            on_restart: OnRestart::Keep,
            pausable: false,
            console: None,
            durable: Box::default(),
        }
    }

    /// A name that people know the child by.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..self }
    }
    /// When to start it again.
    #[must_use]
    pub fn restart(self, restart: Restart) -> Self {
        Self { restart, ..self }
    }
    /// How long it may take to stop.
    #[must_use]
    pub fn shutdown(self, shutdown: Shutdown) -> Self {
        Self { shutdown, ..self }
    }
    /// Where it runs.
    #[must_use]
    pub fn placement(self, placement: Placement) -> Self {
        Self { placement, ..self }
    }
    /// What becomes of waiting messages at a restart.
    #[must_use]
    pub fn on_restart(self, on_restart: OnRestart) -> Self {
        Self { on_restart, ..self }
    }
    /// Lets operators pause it.
    #[must_use]
    pub fn pausable(self) -> Self {
        Self { pausable: true, ..self }
    }
    /// Who answers operator verbs under this path.
    #[must_use]
    pub fn console(self, console: Recipient<ConsoleRequest>) -> Self {
        Self { console: Some(console), ..self }
    }
    /// Declares state of the child that outlives its restarts: the tree names it.
    #[must_use]
    pub fn durable<T>(self, state: &Durable<T>) -> Self {
        let durable = self.durable.iter().copied().chain([state.name()]).collect();
        Self { durable, ..self }
    }
}

impl ChildSpec {
    pub(crate) fn arbiters(&self) -> usize {
        let own = match self.placement {
            Placement::Inherit => 0,
            Placement::Dedicated => 1,
            Placement::Spread(threads) => threads.max(1),
        };
        let below = match &self.start {
            Start::Supervisor(spec) | Start::Dynamic { spec, .. } => spec.arbiters(),
            Start::Worker(_) | Start::Pool { .. } => 0,
        };
        own + below
    }
}

impl SupervisorSpec {
    /// No children yet, limits of a leaf supervisor.
    pub fn new(strategy: Strategy) -> Self {
        Self { strategy, limits: Limits::LEAF, children: Vec::new() }
    }
    /// Other limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
    /// Adds a child, started after and stopped before the ones already there.
    #[must_use]
    pub fn child(mut self, child: ChildSpec) -> Self {
        self.children.push(child);
        self
    }

    /// Number of threads with an event loop of their own that this tree takes. Each needs file descriptors of its own.
    pub fn arbiters(&self) -> usize {
        self.children.iter().map(ChildSpec::arbiters).sum()
    }
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec").field("id", &self.id).field("start", &self.start).finish_non_exhaustive()
    }
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Start::Worker(factory) => f.write_str(factory.kind),
            Start::Pool { count, .. } => write!(f, "pool of {count}"),
            Start::Supervisor(spec) => spec.fmt(f),
            Start::Dynamic { spec, slot } => write!(f, "dynamic, at most {}, {spec:?}", slot.max),
        }
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}
