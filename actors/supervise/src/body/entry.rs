//! State of one child in its supervisor.

use std::{sync::Arc, time::Duration};

use orchestrator_observe::{Restart, State};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use crate::{ChildrenError, Shutdown, child_state::ChildState, runner::Control};

/// Time that a runner may take to report a child killed at its deadline. After it the arbiter counts as
/// blocked, and the supervisor no longer waits for the child.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// Longest drain of a child that is restarted because a sibling failed, whose answers may never come.
const DRAIN_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Shortest drain of a child that is stopped at or after the deadline of the process.
const LAST_DRAIN: Duration = Duration::from_millis(500);

/// Current and wanted state of one child.
pub(crate) struct Entry {
    /// Number in reports and commands: the position, or in a dynamic supervisor a number that grows with each
    /// child.
    pub(crate) number: usize,
    pub(crate) child: Arc<ChildState>,
    pub(crate) control: mpsc::UnboundedSender<Control>,
    pub(crate) restart: Restart,
    pub(crate) shutdown: Shutdown,
    pub(crate) status: Status,
    pub(crate) must_stop: bool,
    pub(crate) must_start: bool,
    /// The child stops because a sibling failed.
    pub(crate) sibling_failed: bool,
    pub(crate) start_at: Instant,
    /// The wanted start follows from a command and from no failure.
    pub(crate) planned: bool,
    /// While stopping: time from which the child's arbiter counts as blocked.
    pub(crate) stop_by: Option<Instant>,
    /// Restarts since the child last ran for a stable period.
    pub(crate) attempt: u32,
    /// Number of times that the child was given up since it last ran for a stable period.
    pub(crate) give_ups: u32,
    /// Running keeps a supervisor whose children give up alone from giving up.
    pub(crate) significant: bool,
    pub(crate) up_since: Option<Instant>,
    pub(crate) incarnation: u64,
    /// Dynamic: reply to the caller of `add`, until the child is up for the first time.
    pub(crate) added: Option<ChangeReply>,
    /// Dynamic: the child leaves the tree once it has ended.
    pub(crate) leaves: bool,
    /// Dynamic: reply to the caller of `remove`.
    pub(crate) removed: Option<ChangeReply>,
}

/// Reply to a change of a dynamic supervisor's children.
pub(crate) type ChangeReply = oneshot::Sender<Result<(), ChildrenError>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Idle,
    Starting,
    Up,
    Stopping,
}

impl Entry {
    pub(crate) fn new(
        number: usize,
        child: Arc<ChildState>,
        control: mpsc::UnboundedSender<Control>,
        restart: Restart,
        shutdown: Shutdown,
    ) -> Self {
        Self {
            number,
            child,
            control,
            restart,
            shutdown,
            status: Status::Idle,
            must_stop: false,
            must_start: false,
            sibling_failed: false,
            start_at: Instant::now(),
            planned: true,
            stop_by: None,
            attempt: 0,
            give_ups: 0,
            significant: true,
            up_since: None,
            incarnation: 0,
            added: None,
            leaves: false,
            removed: None,
        }
    }

    pub(crate) fn tell(&self, control: Control) {
        // Sending cannot fail: a runner ends only after its supervisor.
        let _ = self.control.send(control);
    }

    pub(crate) fn want_stop(&mut self) {
        self.must_stop = self.status != Status::Idle;
    }

    /// Starts the child at `at`. A start that already waits because of a failure stays one, also if a command
    /// hastens it.
    pub(crate) fn want_start(&mut self, at: Instant, planned: bool) {
        self.planned = planned && (self.planned || !self.must_start);
        self.must_start = true;
        self.start_at = at;
    }

    /// Stops the child for good.
    pub(crate) fn want_end(&mut self) {
        self.must_start = false;
        self.want_stop();
        for state in [State::BackingOff, State::GivenUp] {
            self.child.replace_state(state, State::Stopped);
        }
    }

    /// True if the child neither runs nor will run: an operator stopped it, or it finished.
    pub(crate) fn is_retired(&self) -> bool {
        !self.must_start && (self.status == Status::Idle || self.must_stop)
    }

    /// True if the child waits to be tried again.
    pub(crate) fn is_given_up(&self) -> bool {
        self.status == Status::Idle && self.child.state() == State::GivenUp
    }

    pub(crate) fn stays_running(&self) -> bool {
        self.status != Status::Idle && !self.must_stop
    }

    pub(crate) fn is_supervisor(&self) -> bool {
        self.shutdown == Shutdown::Infinity
    }

    /// Asks the child to stop, at the latest shortly after `deadline`. A supervisor passes the deadline on.
    pub(crate) fn stop(&mut self, now: Instant, deadline: Option<Instant>) {
        self.status = Status::Stopping;
        let shutdown = match self.shutdown {
            Shutdown::After(limit) if self.sibling_failed => Shutdown::After(limit.min(DRAIN_AFTER_FAILURE)),
            Shutdown::Infinity if self.sibling_failed => Shutdown::After(DRAIN_AFTER_FAILURE),
            shutdown => shutdown,
        };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(now).max(LAST_DRAIN));
        let shutdown = match (shutdown, left) {
            (Shutdown::After(limit), Some(left)) => Shutdown::After(limit.min(left)),
            _ => shutdown,
        };
        self.stop_by = match shutdown {
            Shutdown::After(limit) => Some(now + limit + KILL_GRACE),
            Shutdown::Infinity => None,
        };
        self.tell(Control::Stop { shutdown, deadline });
    }

    pub(crate) fn kill(&mut self, now: Instant) {
        self.want_end();
        if self.must_stop {
            self.status = Status::Stopping;
            self.stop_by = Some(now + KILL_GRACE);
            self.tell(Control::Kill);
        }
    }

    pub(crate) fn start(&mut self) {
        self.must_start = false;
        self.status = Status::Starting;
        self.incarnation += 1;
        self.tell(Control::Start { incarnation: self.incarnation, planned: self.planned });
    }

    /// Records the end of the incarnation; returns whether the supervisor wanted it.
    pub(crate) fn record_end(&mut self) -> bool {
        self.status = Status::Idle;
        self.stop_by = None;
        self.sibling_failed = false;
        std::mem::take(&mut self.must_stop)
    }

    pub(crate) fn id(&self) -> &str {
        self.child.path().rsplit('/').next().unwrap_or_default()
    }

    /// True if the child can leave the tree: it has ended, also its thread.
    pub(crate) fn is_removable(&self) -> bool {
        self.leaves && self.is_down() && self.child.state() != State::Stuck
    }

    /// True if the supervisor gave up waiting for the child, which has not ended yet.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_down() && self.child.state() == State::Stuck
    }

    fn is_down(&self) -> bool {
        self.status == Status::Idle && !self.must_stop && !self.must_start
    }
}
