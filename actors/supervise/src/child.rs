//! The traits of a subsystem's actor, and the types around one: context, mailbox and cell. Each of them names the others.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use actix::{
    ActorContext, Addr, AsyncContext, Context, Message,
    fut::{ActorFutureExt, LocalBoxActorFuture, wrap_future},
};
use parking_lot::Mutex;

use crate::{
    Exit, Fault, Vitals,
    mailbox_stats::MailboxStats,
    reply::{Pending, Reply, reply},
};

/// An actor of the tree. A restart drops it and makes a fresh one; its mailbox stays.
pub trait Child: Sized + Unpin + 'static {
    /// Called once an incarnation is in place, before its first message.
    fn started(&mut self, _cx: &mut ChildCx<'_, Self>) {}

    /// Asked on a graceful stop once the mailbox is empty: is all work that was begun finished?
    /// It is asked again whenever one of the child's messages, timers or futures has run.
    fn drained(&self) -> bool {
        true
    }

    /// Called after the last message of a graceful stop or a failure, and after a panic; `exit` says which. Not called when the
    /// incarnation is killed.
    fn stopped(&mut self, _exit: &Exit) {}
}

/// Handles messages of type `M`.
pub trait Handle<M: Message>: Child {
    /// Handles one message. It must not block: what blocks belongs on a thread child.
    fn handle(&mut self, message: M, cx: &mut ChildCx<'_, Self>) -> Answer<Self, M::Result>;
}

/// The answer to a message: now, after a future during which no other message is handled, or later.
pub struct Answer<A: Child, R>(pub(crate) Form<A, R>);

pub(crate) enum Form<A: Child, R> {
    Now(R),
    Atomic(LocalBoxActorFuture<Cell<A>, R>),
    Later(Pending<R>),
}

impl<A: Child, R> Answer<A, R> {
    /// Answers at once.
    pub fn now(value: R) -> Self {
        Self(Form::Now(value))
    }

    /// Answers by the reply, whenever that is; other messages are handled meanwhile. The asker's message is lost if the reply is dropped or the
    /// incarnation ends before. A graceful stop waits for it only as far as [`Child::drained`] does.
    pub fn later() -> (Reply<R>, Self) {
        let (reply, answer) = reply();
        (reply, Self(Form::Later(answer)))
    }
}

impl<A: Child> Answer<A, ()> {
    /// The answer of a handler that has nothing to say.
    pub fn done() -> Self {
        Self::now(())
    }
}

/// Sends to an actor. Cheap to clone; never closes before the process ends.
pub struct Mailbox<A: Child> {
    pub(crate) addr: Addr<Cell<A>>,
    pub(crate) gauge: Arc<MailboxStats>,
}

/// What cell and runner share.
pub(crate) struct Shared<A: Child> {
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) mailbox: Mailbox<A>,
    exit: Mutex<Option<Exit>>,
}

impl<A: Child> Shared<A> {
    pub(crate) fn new(vitals: Arc<Vitals>, mailbox: Mailbox<A>) -> Arc<Self> {
        Arc::new(Self { vitals, mailbox, exit: Mutex::new(None) })
    }

    /// The first fault counts: the stop that follows does not overwrite it, but it overwrites the stop before it.
    pub(crate) fn set_exit(&self, exit: Exit) {
        let mut word = self.exit.lock();
        if !word.as_ref().is_some_and(Exit::is_abnormal) {
            *word = Some(exit);
        }
    }

    /// The exit as the runner will report it, as far as it is known.
    pub(crate) fn exit(&self) -> Exit {
        let exit = self.exit.lock().clone().unwrap_or(Exit::Normal);
        if exit == Exit::Normal && self.vitals.is_draining() { Exit::Shutdown } else { exit }
    }

    pub(crate) fn take_exit(&self) -> Option<Exit> {
        self.exit.lock().take()
    }
}

/// What the body puts down before it restarts the cell.
pub(crate) enum Next<A> {
    /// Nothing follows: the cell is vacated.
    Vacate,
    /// Nothing follows, and the old incarnation panicked: it still gets its `stopped`, with this exit.
    Bury(Exit),
    /// A fresh incarnation.
    Occupy(A),
}

/// Where the body puts it.
pub(crate) type NextChild<A> = Rc<RefCell<Next<A>>>;

/// Holds the current incarnation, or none between two.
pub(crate) struct Cell<A: Child> {
    pub(crate) child: Option<A>,
    pub(crate) next: NextChild<A>,
    pub(crate) shared: Arc<Shared<A>>,
    pub(crate) breath: u32,
}

/// What a child may do with its own life.
pub struct ChildCx<'a, A: Child> {
    pub(crate) ctx: &'a mut Context<Cell<A>>,
    pub(crate) shared: &'a Arc<Shared<A>>,
}

impl<A: Child> ChildCx<'_, A> {
    /// Metrics, link and state of this child.
    pub fn vitals(&self) -> &Arc<Vitals> {
        &self.shared.vitals
    }

    /// The child's own mailbox.
    pub fn mailbox(&self) -> &Mailbox<A> {
        &self.shared.mailbox
    }

    /// The number of this incarnation: put it beside every handle that comes from outside.
    pub fn incarnation(&self) -> u64 {
        self.shared.vitals.incarnation()
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

    /// Runs `tick` every `period` until the incarnation ends.
    pub fn every(&mut self, period: Duration, mut tick: impl FnMut(&mut A, &mut ChildCx<'_, A>) + 'static) {
        self.ctx.run_interval(period, move |cell, ctx| cell.with(ctx, &mut tick));
    }

    /// Runs `then` once, `delay` from now, unless the incarnation ends before.
    pub fn after(&mut self, delay: Duration, then: impl FnOnce(&mut A, &mut ChildCx<'_, A>) + 'static) {
        self.ctx.run_later(delay, move |cell, ctx| cell.with(ctx, then));
    }

    /// Runs a future beside the messages and hands its output to `then`. It dies with the incarnation.
    pub fn spawn<T: 'static>(
        &mut self,
        future: impl Future<Output = T> + 'static,
        then: impl FnOnce(&mut A, T, &mut ChildCx<'_, A>) + 'static,
    ) {
        let future = wrap_future::<_, Cell<A>>(future)
            .map(move |output, cell, ctx| cell.with(ctx, |child, cx| then(child, output, cx)));
        self.ctx.spawn(future);
    }

    /// Answers after a future; no other message is handled meanwhile.
    pub fn atomically<T: 'static, R: 'static>(
        &mut self,
        future: impl Future<Output = T> + 'static,
        then: impl FnOnce(&mut A, T, &mut ChildCx<'_, A>) -> R + 'static,
    ) -> Answer<A, R> {
        let future = wrap_future::<_, Cell<A>>(future)
            .map(move |output, cell, ctx| cell.with(ctx, |child, cx| then(child, output, cx)));
        Answer(Form::Atomic(Box::pin(future)))
    }
}
