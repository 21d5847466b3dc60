//! Traits of an actor, and the types around it: context, answer, mailbox and host.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use actix::{
    ActorContext, Addr, AsyncContext, Context, Message,
    fut::{ActorFutureExt, LocalBoxActorFuture, wrap_future},
};
use orchestrator_observe::{Exit, Fault, Vitals};
use parking_lot::Mutex;

use crate::{
    child_state::ChildState,
    mailbox_stats::MailboxStats,
    reply::{Pending, Reply, reply},
};

/// An actor of the tree. A restart drops it and creates a new one; the mailbox stays.
pub trait Child: Sized + Unpin + 'static {
    /// Called before the first message of an incarnation.
    fn started(&mut self, _cx: &mut ChildCx<'_, Self>) {}

    /// Returns true if the child's own work is finished. Called on a graceful stop once the mailbox is empty,
    /// and again after each message, timer or future of the child.
    fn drained(&self) -> bool {
        true
    }

    /// Called at the end of an incarnation with its exit, also after a panic, but not when the incarnation is
    /// killed.
    fn stopped(&mut self, _exit: &Exit) {}
}

/// Handles messages of type `M`.
pub trait Handle<M: Message>: Child {
    /// Handles one message. It must not block; blocking code belongs in a thread child.
    fn handle(&mut self, message: M, cx: &mut ChildCx<'_, Self>) -> Handled<Self, M::Result>;
}

/// Result of a handler: the answer now, after a future ([`ChildCx::atomically`]), or later.
pub struct Handled<A: Child, R>(pub(crate) HandledKind<A, R>);

pub(crate) enum HandledKind<A: Child, R> {
    Now(R),
    Atomic(LocalBoxActorFuture<ActorHost<A>, R>),
    Later(Pending<R>),
}

impl<A: Child, R> Handled<A, R> {
    /// Creates an immediate answer.
    pub fn now(value: R) -> Self {
        Self(HandledKind::Now(value))
    }

    /// Creates an answer that is sent later by the returned reply; other messages are handled meanwhile.
    ///
    /// The caller gets `AskError::Lost` if the reply is dropped or the incarnation ends first; the reply is
    /// closed if the caller gives up first. A graceful stop waits for the answer only if [`Child::drained`]
    /// does.
    pub fn later() -> (Reply<R>, Self) {
        let (reply, answer) = reply();
        (reply, Self(HandledKind::Later(answer)))
    }
}

impl<A: Child> Handled<A, ()> {
    /// Creates an empty answer.
    pub fn done() -> Self {
        Self::now(())
    }
}

/// Sending end of an actor's mailbox. Cheap to clone; stays open until the process ends.
pub struct Mailbox<A: Child> {
    pub(crate) addr: Addr<ActorHost<A>>,
    pub(crate) stats: Arc<MailboxStats>,
}

/// State shared by host and runner.
pub(crate) struct Shared<A: Child> {
    pub(crate) child: Arc<ChildState>,
    pub(crate) mailbox: Mailbox<A>,
    exit: Mutex<Option<Exit>>,
}

impl<A: Child> Shared<A> {
    pub(crate) fn new(child: Arc<ChildState>, mailbox: Mailbox<A>) -> Arc<Self> {
        Arc::new(Self { child, mailbox, exit: Mutex::new(None) })
    }

    /// Records the exit. The first abnormal exit stays; a normal one is overwritten.
    pub(crate) fn set_exit(&self, exit: Exit) {
        let mut recorded = self.exit.lock();
        if !recorded.as_ref().is_some_and(Exit::is_abnormal) {
            *recorded = Some(exit);
        }
    }

    /// Exit that the runner will report.
    pub(crate) fn exit(&self) -> Exit {
        let exit = self.exit.lock().clone().unwrap_or(Exit::Normal);
        if exit == Exit::Normal && self.child.is_draining() { Exit::Shutdown } else { exit }
    }

    pub(crate) fn take_exit(&self) -> Option<Exit> {
        self.exit.lock().take()
    }
}

/// NextIncarnation content of the host, set by the body before it restarts the host.
pub(crate) enum NextIncarnation<A> {
    /// No incarnation.
    Empty,
    /// No incarnation; the old one panicked and gets `stopped` with this exit.
    Panicked(Exit),
    /// A new incarnation.
    Incarnation(A),
}

pub(crate) type NextChild<A> = Rc<RefCell<NextIncarnation<A>>>;

/// actix actor that holds the current incarnation of a child; empty between two.
pub(crate) struct ActorHost<A: Child> {
    pub(crate) child: Option<A>,
    pub(crate) next: NextChild<A>,
    pub(crate) shared: Arc<Shared<A>>,
    /// Messages handled by this incarnation.
    pub(crate) messages: u32,
}

/// Context of an actor's incarnation: timers, futures, exit and state.
pub struct ChildCx<'a, A: Child> {
    pub(crate) ctx: &'a mut Context<ActorHost<A>>,
    pub(crate) shared: &'a Arc<Shared<A>>,
}

impl<A: Child> ChildCx<'_, A> {
    /// Metrics, link and work that the child reports.
    pub fn vitals(&self) -> &Arc<Vitals> {
        self.shared.child.vitals()
    }

    /// Incarnation, restarts, pause and queues of the child.
    pub fn state(&self) -> &ChildState {
        &self.shared.child
    }

    /// Mailbox of the child.
    pub fn mailbox(&self) -> &Mailbox<A> {
        &self.shared.mailbox
    }

    /// Number of this incarnation.
    pub fn incarnation(&self) -> u64 {
        self.shared.child.incarnation()
    }

    /// Ends this incarnation with [`Exit::Normal`].
    pub fn stop(&mut self) {
        self.end(Exit::Normal);
    }

    /// Ends this incarnation with [`Exit::Failed`].
    pub fn fail(&mut self, fault: Fault) {
        self.end(Exit::Failed(fault));
    }

    fn end(&mut self, exit: Exit) {
        self.shared.set_exit(exit);
        self.ctx.stop();
    }

    /// Calls `tick` every `period` until the incarnation ends.
    pub fn every(&mut self, period: Duration, mut tick: impl FnMut(&mut A, &mut ChildCx<'_, A>) + 'static) {
        self.ctx.run_interval(period, move |host, ctx| host.with(ctx, &mut tick));
    }

    /// Calls `then` once after `delay`, unless the incarnation ends first.
    pub fn after(&mut self, delay: Duration, then: impl FnOnce(&mut A, &mut ChildCx<'_, A>) + 'static) {
        self.ctx.run_later(delay, move |host, ctx| host.with(ctx, then));
    }

    /// Drives a future beside the messages and passes its output to `then`. It is dropped with the
    /// incarnation.
    pub fn spawn<T: 'static>(
        &mut self,
        future: impl Future<Output = T> + 'static,
        then: impl FnOnce(&mut A, T, &mut ChildCx<'_, A>) + 'static,
    ) {
        let future = wrap_future::<_, ActorHost<A>>(future)
            .map(move |output, host, ctx| host.with(ctx, |child, cx| then(child, output, cx)));
        self.ctx.spawn(future);
    }

    /// Answers after `future`; no other message is handled meanwhile.
    pub fn atomically<T: 'static, R: 'static>(
        &mut self,
        future: impl Future<Output = T> + 'static,
        then: impl FnOnce(&mut A, T, &mut ChildCx<'_, A>) -> R + 'static,
    ) -> Handled<A, R> {
        let future = wrap_future::<_, ActorHost<A>>(future)
            .map(move |output, host, ctx| host.with(ctx, |child, cx| then(child, output, cx)));
        Handled(HandledKind::Atomic(Box::pin(future)))
    }
}
