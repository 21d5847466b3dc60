//! Specifications of children and supervisors.

use std::{fmt, time::Duration};

use orchestrator_observe::Restart;
use tokio::sync::{mpsc, oneshot};

use crate::{
    Backoff, ChildRef, ChildrenError, Durable, Factory, Limits, Strategy,
    attached::Attached,
    sends::{DeclaredSend, Target},
};

/// Specification of a child: id, kind and policies.
pub struct ChildSpec {
    pub(crate) id: String,
    pub(crate) label: Option<String>,
    pub(crate) start: Start,
    pub(crate) restart: Restart,
    pub(crate) shutdown: Shutdown,
    pub(crate) placement: Placement,
    pub(crate) on_restart: OnRestart,
    pub(crate) pausable: bool,
    pub(crate) attached: Attached,
    pub(crate) durable: Box<[&'static str]>,
    pub(crate) sends: Vec<DeclaredSend>,
    pub(crate) reference: Option<ChildRef>,
    pub(crate) significant: bool,
}

/// Kind of a child.
pub enum Start {
    /// An actor, a task or a thread.
    Worker(Factory),
    /// A fixed number of equal workers, which stop at the same time within one deadline.
    Pool {
        /// Number of workers.
        count: usize,
        /// Creates the factory of worker `index`.
        start: Box<dyn Fn(usize) -> Factory + Send>,
        /// Creates the label of worker `index`.
        label: Option<Box<dyn Fn(usize) -> String + Send>>,
    },
    /// A supervisor with children of its own.
    Supervisor(SupervisorSpec),
    /// A one_for_one supervisor whose children are added and removed at run time; they stop at the same time
    /// (OTP: simple_one_for_one).
    Dynamic {
        /// Limits and initial children.
        spec: SupervisorSpec,
        /// Receiving end of [`Children`].
        slot: ChildrenSlot,
    },
}

/// Handle for adding and removing children of a dynamic supervisor, created by [`children`](crate::children).
/// Cheap to clone.
#[derive(Clone)]
pub struct Children {
    pub(crate) changes: mpsc::Sender<Change>,
}

/// Receiving end of [`Children`], an argument of [`ChildSpec::dynamic`].
pub struct ChildrenSlot {
    pub(crate) changes: mpsc::Receiver<Change>,
    pub(crate) max: usize,
}

/// Change of a dynamic supervisor's children.
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    pub(crate) reply: oneshot::Sender<Result<(), ChildrenError>>,
}

pub(crate) enum ChangeKind {
    Add(Box<ChildSpec>),
    Remove(String),
}

/// Deadline of a child's stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// The child is drained, and dropped when the time is over.
    After(Duration),
    /// No deadline. For supervisors only.
    Infinity,
}

/// Arbiter thread of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// The arbiter of the parent.
    #[default]
    Inherit,
    /// An arbiter of its own; for a supervisor: one that its children share.
    Dedicated,
    /// For a pool: this number of arbiters, over which its workers are distributed.
    Spread(usize),
}

/// Treatment of waiting messages when a child is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRestart {
    /// The next incarnation handles them.
    #[default]
    Keep,
    /// They are dropped, for example because they refer to a lost connection. Callers of `ask` get
    /// `AskError::Lost`.
    Purge,
}

/// Specification of a supervisor: strategy, limits, and children in start order (sinks first, sources last).
#[derive(Debug)]
pub struct SupervisorSpec {
    pub(crate) strategy: Strategy,
    pub(crate) limits: Limits,
    pub(crate) independent_branches: bool,
    /// Delays between the tries of a child that was given up; None if the supervisor gives up instead.
    pub(crate) retry: Option<Backoff>,
    pub(crate) link_retry_max: Duration,
    pub(crate) chaos: bool,
    pub(crate) children: Vec<ChildSpec>,
}

impl ChildSpec {
    /// Specifies a permanent worker that has 5 s to stop.
    pub fn worker(id: impl Into<String>, factory: Factory) -> Self {
        Self::new(id, Start::Worker(factory), Shutdown::After(Duration::from_secs(5)))
    }

    /// Specifies a permanent pool of `count` workers that together have 5 s to stop.
    pub fn pool(
        id: impl Into<String>,
        count: usize,
        start: impl Fn(usize) -> Factory + Send + 'static,
    ) -> Self {
        let start = Start::Pool { count, start: Box::new(start), label: None };
        Self::new(id, start, Shutdown::After(Duration::from_secs(5)))
    }

    /// Sets the labels of a pool's workers; other children have one [`label`](Self::label).
    #[must_use]
    pub fn worker_labels(mut self, of: impl Fn(usize) -> String + Send + 'static) -> Self {
        if let Start::Pool { label, .. } = &mut self.start {
            *label = Some(Box::new(of));
        }
        self
    }

    /// Specifies a permanent supervisor.
    pub fn supervisor(id: impl Into<String>, spec: SupervisorSpec) -> Self {
        Self::new(id, Start::Supervisor(spec), Shutdown::Infinity)
    }

    /// Specifies a permanent dynamic supervisor with the limits and initial children of `spec`. The
    /// [`Children`] of `slot` add and remove children.
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
            attached: Attached::default(),
            durable: Box::default(),
            sends: Vec::new(),
            reference: None,
            significant: true,
        }
    }

    /// Sets the name for people.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..self }
    }
    /// Sets the restart policy.
    #[must_use]
    pub fn restart(self, restart: Restart) -> Self {
        Self { restart, ..self }
    }
    /// Sets the deadline of a stop.
    #[must_use]
    pub fn shutdown(self, shutdown: Shutdown) -> Self {
        Self { shutdown, ..self }
    }
    /// Sets the arbiter.
    #[must_use]
    pub fn placement(self, placement: Placement) -> Self {
        Self { placement, ..self }
    }
    /// Sets the treatment of waiting messages at a restart.
    #[must_use]
    pub fn on_restart(self, on_restart: OnRestart) -> Self {
        Self { on_restart, ..self }
    }
    /// Allows operators to pause the child.
    #[must_use]
    pub fn pausable(self) -> Self {
        Self { pausable: true, ..self }
    }
    /// Attaches a value for others to find by its type, see [`Tree::attached`](crate::Tree::attached). The
    /// first value of a type counts.
    #[must_use]
    pub fn attach<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.attached.add(value);
        self
    }
    /// Declares durable state, whose name the tree shows.
    #[must_use]
    pub fn durable<T>(self, state: &Durable<T>) -> Self {
        let durable = self.durable.iter().copied().chain([state.name()]).collect();
        Self { durable, ..self }
    }
    /// Declares a child that this one sends messages to. Waits that leave it free for its own messages are
    /// declared so, too. The tree shows it. Of a pool or supervisor, it holds for all children below.
    ///
    /// In debug builds, a child that sends to another one without a declaration panics.
    #[must_use]
    pub fn sends_to(self, to: impl Into<Target>) -> Self {
        self.declare_send(to.into(), false)
    }
    /// Declares a child that this one sends to as [`sends_to`](Self::sends_to) says, and for which it may
    /// also wait: for an answer or for room in a mailbox, while it handles nothing else. A tree with a cycle
    /// of such waits does not start.
    #[must_use]
    pub fn waits_for(self, to: impl Into<Target>) -> Self {
        self.declare_send(to.into(), true)
    }

    fn declare_send(mut self, to: Target, waits: bool) -> Self {
        self.sends.push(DeclaredSend { to, waits });
        self
    }

    /// Makes `reference` name this child.
    #[must_use]
    pub fn reference(self, reference: &ChildRef) -> Self {
        Self { reference: Some(reference.clone()), ..self }
    }
    /// Excludes the child from those whose running keeps a supervisor with [`SupervisorSpec::give_up_alone`]
    /// from giving up (OTP: `significant`, but children here are significant by default).
    #[must_use]
    pub fn insignificant(self) -> Self {
        Self { significant: false, ..self }
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
    /// Specifies a supervisor without children, with [`Limits::LEAF`].
    pub fn new(strategy: Strategy) -> Self {
        Self {
            strategy,
            limits: Limits::LEAF,
            independent_branches: false,
            retry: None,
            link_retry_max: Duration::MAX,
            chaos: false,
            children: Vec::new(),
        }
    }
    /// Sets the limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
    /// Stops neighbouring children that are supervisors side by side, for branches that send nothing to each
    /// other. Workers stop in order, as always.
    #[must_use]
    pub fn independent_branches(self) -> Self {
        Self { independent_branches: true, ..self }
    }
    /// Applies the limits to each child of a one_for_one supervisor by itself. A child that exceeds them is
    /// given up alone, and the supervisor continues, as long as another significant child runs or restarts.
    ///
    /// A child that was given up stays stopped for `retry.first`, then starts again. The delay doubles up to
    /// `retry.max` each time that it is given up again, and is `retry.first` again once the child has run for
    /// longer than the limits' period.
    #[must_use]
    pub fn give_up_alone(self, retry: Backoff) -> Self {
        Self { retry: Some(retry), ..self }
    }
    /// Sets the longest delay between two attempts of every link in the tree; only that of the root counts.
    #[must_use]
    pub fn link_retry_max(self, max: Duration) -> Self {
        Self { link_retry_max: max, ..self }
    }
    /// Allows [`Command::Panic`](crate::Command::Panic) and [`Command::Freeze`](crate::Command::Freeze), for
    /// tests and drills; only the value of the root counts.
    #[must_use]
    pub fn allow_chaos(self, chaos: bool) -> Self {
        Self { chaos, ..self }
    }
    /// Adds a child, which is started after and stopped before the children added earlier.
    #[must_use]
    pub fn child(mut self, child: ChildSpec) -> Self {
        self.children.push(child);
        self
    }

    /// Number of arbiter threads of this tree, without the two of every tree. Each needs file descriptors of
    /// its own.
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
