//! One child as its supervisor sees it.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use crate::{ChildSpec, ChildrenError, Restart, Shutdown, State, Vitals, runner::Control};

/// A runner kills its child at the deadline. One that has not even reported that, so long after, sits on an arbiter
/// that is blocked, and is waited for no longer.
const GRACE: Duration = Duration::from_secs(1);
/// Longest drain of a child that is restarted because a sibling failed: its answers may never come.
const DRAIN_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What a supervisor knows and wishes of one child.
pub(crate) struct Entry {
    /// Its number in reports and orders: its position, or, below a dynamic supervisor, one that grows with each child.
    pub(crate) number: usize,
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) control: mpsc::UnboundedSender<Control>,
    pub(crate) restart: Restart,
    pub(crate) shutdown: Shutdown,
    pub(crate) status: Status,
    pub(crate) must_stop: bool,
    pub(crate) must_start: bool,
    /// Stops because a sibling failed.
    pub(crate) sibling_failed: bool,
    pub(crate) start_at: Instant,
    /// While stopping: when the child's arbiter counts as blocked.
    pub(crate) stop_by: Option<Instant>,
    /// Restarts since it last ran for a stable period.
    pub(crate) attempt: u32,
    pub(crate) up_since: Option<Instant>,
    pub(crate) incarnation: u64,
    /// Dynamic: who waits until it is up for the first time.
    pub(crate) arrival: Option<Answer>,
    /// Dynamic: it leaves the tree once it has ended.
    pub(crate) departure: Option<Departure>,
}

/// Tells whoever asked for a change of a dynamic supervisor's children.
pub(crate) type Answer = oneshot::Sender<Result<(), ChildrenError>>;

/// The end of a child of a dynamic supervisor.
#[derive(Default)]
pub(crate) struct Departure {
    /// Who waits for it.
    pub(crate) asked: Option<Answer>,
    /// What comes in its place, and who waits for that.
    pub(crate) successor: Option<(Box<ChildSpec>, Answer)>,
}

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
        vitals: Arc<Vitals>,
        control: mpsc::UnboundedSender<Control>,
        restart: Restart,
        shutdown: Shutdown,
    ) -> Self {
        Self {
            number,
            vitals,
            control,
            restart,
            shutdown,
            status: Status::Idle,
            must_stop: false,
            must_start: false,
            sibling_failed: false,
            start_at: Instant::now(),
            stop_by: None,
            attempt: 0,
            up_since: None,
            incarnation: 0,
            arrival: None,
            departure: None,
        }
    }

    pub(crate) fn tell(&self, control: Control) {
        // A runner ends only after its supervisor.
        let _ = self.control.send(control);
    }

    pub(crate) fn want_stop(&mut self) {
        self.must_stop = self.status != Status::Idle;
    }

    pub(crate) fn want_start(&mut self, at: Instant) {
        self.must_start = true;
        self.start_at = at;
    }

    /// It is to stay down.
    pub(crate) fn want_end(&mut self) {
        self.must_start = false;
        self.want_stop();
        self.vitals.shift_state(State::BackingOff, State::Stopped);
    }

    /// Neither runs nor is to run: stopped by an operator, finished, or on its way there.
    pub(crate) fn is_retired(&self) -> bool {
        !self.must_start && (self.status == Status::Idle || self.must_stop)
    }

    /// Runs, and is to run on.
    pub(crate) fn is_at_work(&self) -> bool {
        self.status != Status::Idle && !self.must_stop
    }

    pub(crate) fn stop(&mut self, now: Instant) {
        self.status = Status::Stopping;
        let shutdown = match self.shutdown {
            Shutdown::After(limit) if self.sibling_failed => Shutdown::After(limit.min(DRAIN_AFTER_FAILURE)),
            Shutdown::Infinity if self.sibling_failed => Shutdown::After(DRAIN_AFTER_FAILURE),
            shutdown => shutdown,
        };
        self.stop_by = match shutdown {
            Shutdown::Kill => Some(now + GRACE),
            Shutdown::After(limit) => Some(now + limit + GRACE),
            Shutdown::Infinity => None,
        };
        self.tell(Control::Stop(shutdown));
    }

    pub(crate) fn kill(&mut self, now: Instant) {
        self.want_end();
        if self.must_stop {
            self.status = Status::Stopping;
            self.stop_by = Some(now + GRACE);
            self.tell(Control::Kill);
        }
    }

    pub(crate) fn start(&mut self) {
        self.must_start = false;
        self.status = Status::Starting;
        self.incarnation += 1;
        self.tell(Control::Start { incarnation: self.incarnation });
    }

    /// It ended; true when that was its supervisor's wish.
    pub(crate) fn ended(&mut self) -> bool {
        self.status = Status::Idle;
        self.stop_by = None;
        self.sibling_failed = false;
        std::mem::take(&mut self.must_stop)
    }

    /// Its id.
    pub(crate) fn id(&self) -> &str {
        self.vitals.path().rsplit('/').next().unwrap_or_default()
    }

    /// It has ended for good: nothing of it is left that could be doubled.
    pub(crate) fn has_left(&self) -> bool {
        self.departure.is_some() && self.is_down() && self.vitals.state() != State::Stuck
    }

    /// It was given up, but has not ended.
    pub(crate) fn is_left_behind(&self) -> bool {
        self.is_down() && self.vitals.state() == State::Stuck
    }

    fn is_down(&self) -> bool {
        self.status == Status::Idle && !self.must_stop && !self.must_start
    }
}
