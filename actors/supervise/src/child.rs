//! What a subsystem's actor implements, and the context it is handed.

use std::{sync::Arc, time::Duration};

use actix::{
    ActorContext, AsyncContext, Context, Message,
    fut::{ActorFutureExt, LocalBoxActorFuture, wrap_future},
};

use crate::{
    Exit, Fault, Vitals,
    cell::{Cell, Shared},
    mailbox::Mailbox,
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

    /// Called after the last message of a graceful stop or a failure, and while a panic unwinds.
    fn stopped(&mut self) {}
}

/// Handles messages of type `M`.
pub trait Handle<M: Message>: Child {
    /// Handles one message. It must not block: what blocks belongs on a thread child.
    fn handle(&mut self, message: M, cx: &mut ChildCx<'_, Self>) -> Answer<Self, M::Result>;
}

/// The answer to a message: now, or after a future during which no other message is handled.
pub struct Answer<A: Child, R>(pub(crate) Form<A, R>);

pub(crate) enum Form<A: Child, R> {
    Now(R),
    Atomic(LocalBoxActorFuture<Cell<A>, R>),
}

impl<A: Child, R> Answer<A, R> {
    /// Answers at once.
    pub fn now(value: R) -> Self {
        Self(Form::Now(value))
    }
}

impl<A: Child> Answer<A, ()> {
    /// The answer of a handler that has nothing to say.
    pub fn done() -> Self {
        Self::now(())
    }
}

/// What a child may do with its own life.
pub struct ChildCx<'a, A: Child> {
    pub(crate) ctx: &'a mut Context<Cell<A>>,
    pub(crate) shared: &'a Arc<Shared<A>>,
}

impl<A: Child> ChildCx<'_, A> {
    /// Figures, link and state of this child.
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
