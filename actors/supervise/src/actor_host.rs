//! The actix actor that holds the incarnations of a child and handles the envelopes sent to it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Instant,
};

use actix::{
    Actor, ActorContext, ActorFuture, AsyncContext, Context, Handler, Message, Supervised,
    dev::{MessageResponse, OneshotSender},
    fut::{ActorFutureExt, LocalBoxActorFuture, wrap_future},
};
use orchestrator_observe::{Exit, WorkGuard};

use crate::{
    activity::blocking,
    child::{ActorHost, Child, ChildCx, Handle, Handled, HandledKind, NextChild, NextIncarnation, Shared},
    guard::guard,
    mailbox_stats::{MessageStats, Permit},
};

/// Messages handled in one poll. Then the arbiter runs other futures, so that pause, stop and kill take
/// effect.
const MESSAGES_PER_POLL: u32 = 64;

impl<A: Child> ActorHost<A> {
    pub(crate) fn empty(shared: Arc<Shared<A>>, next: NextChild<A>) -> Self {
        Self { child: None, next, shared, messages: 0 }
    }

    /// Calls `f` with the current incarnation.
    pub(crate) fn with<R>(
        &mut self,
        ctx: &mut Context<Self>,
        f: impl FnOnce(&mut A, &mut ChildCx<'_, A>) -> R,
    ) -> R {
        let child = self.child.as_mut().expect("the runner polls a host only while it is occupied");
        f(child, &mut ChildCx { ctx, shared: &self.shared })
    }

    /// Calls the incarnation's `stopped`. Catches its panic, which would abort the process while another
    /// panic unwinds.
    fn call_stopped(&mut self, exit: &Exit) {
        if let Some(child) = self.child.as_mut()
            && let Err(panicked) = guard(|| child.stopped(exit))
        {
            self.shared.set_exit(panicked);
        }
    }
}

impl<A: Child> Actor for ActorHost<A> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if self.child.is_none() {
            // actix polls a context once more when dropping it.
            return;
        }
        ctx.spawn(DrainWatch);
        self.with(ctx, A::started);
        // The first poll ends here, so that a child that starts paused handles no message.
        ctx.wait(Yield(false));
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        let exit = self.shared.exit();
        self.call_stopped(&exit);
    }
}

impl<A: Child> Supervised for ActorHost<A> {
    fn restarting(&mut self, _ctx: &mut Self::Context) {
        self.messages = 0;
        let next = std::mem::replace(&mut *self.next.borrow_mut(), NextIncarnation::Empty);
        if let NextIncarnation::Panicked(exit) = &next {
            self.call_stopped(exit);
        }
        self.child = if let NextIncarnation::Incarnation(child) = next { Some(child) } else { None };
    }
}

/// Ends a draining host once no message waits and the child's own work is finished.
struct DrainWatch;

impl<A: Child> ActorFuture<ActorHost<A>> for DrainWatch {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        host: &mut ActorHost<A>,
        ctx: &mut Context<ActorHost<A>>,
        _task: &mut TaskContext<'_>,
    ) -> Poll<()> {
        // The body polls a draining context again after each progress, so no waker is needed.
        let state = &host.shared.child;
        // A context that waits has an answer in progress.
        let idle = state.is_draining() && state.depth() == 0 && !ctx.waiting();
        if idle && host.child.as_ref().is_none_or(A::drained) {
            host.shared.set_exit(Exit::Shutdown);
            ctx.stop();
        }
        Poll::Pending
    }
}

/// Future that is pending once, so that the arbiter runs other futures.
struct Yield(bool);

impl<A: Actor> ActorFuture<A> for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut A, _: &mut A::Context, task: &mut TaskContext<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Future of an answer that keeps the child from other messages.
struct Atomically<A: Child, R>(LocalBoxActorFuture<ActorHost<A>, R>);

impl<A: Child, R> ActorFuture<ActorHost<A>> for Atomically<A, R> {
    type Output = R;

    fn poll(
        mut self: Pin<&mut Self>,
        host: &mut ActorHost<A>,
        ctx: &mut Context<ActorHost<A>>,
        task: &mut TaskContext<'_>,
    ) -> Poll<R> {
        blocking(|| self.0.as_mut().poll(host, ctx, task))
    }
}

/// A message in the mailbox, with its permit.
pub(crate) struct Envelope<M> {
    message: M,
    permit: Permit,
    stats: Arc<MessageStats>,
}

impl<M: Message> Message for Envelope<M> {
    type Result = M::Result;
}

impl<M> Envelope<M> {
    pub(crate) fn new(message: M, permit: Permit, stats: Arc<MessageStats>) -> Self {
        Self { message, permit, stats }
    }

    pub(crate) fn into_message(self) -> M {
        self.message
    }
}

/// Measures the handling of one message, and shows it as work in progress.
pub(crate) struct HandlingTimer {
    stats: Arc<MessageStats>,
    started: Instant,
    _work: WorkGuard,
}

impl Drop for HandlingTimer {
    fn drop(&mut self) {
        self.stats.handling.record(self.started.elapsed());
    }
}

/// Result of handling an envelope; after a purge there is no answer, and the caller gets `AskError::Lost`.
pub(crate) enum Delivery<A: Child, R> {
    Purged,
    Answered(Handled<A, R>, HandlingTimer),
}

impl<A, M> Handler<Envelope<M>> for ActorHost<A>
where
    A: Handle<M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    type Result = Delivery<A, M::Result>;

    fn handle(&mut self, envelope: Envelope<M>, ctx: &mut Self::Context) -> Self::Result {
        self.messages += 1;
        if self.messages.is_multiple_of(MESSAGES_PER_POLL) {
            ctx.wait(Yield(false));
        }
        let Some(waited) = envelope.permit.take_message() else {
            return Delivery::Purged;
        };
        envelope.stats.wait.record(waited);
        let timer = HandlingTimer {
            started: Instant::now(),
            _work: self.shared.child.vitals().begin_work(envelope.stats.name),
            stats: envelope.stats,
        };
        let answer = self.with(ctx, |child, cx| child.handle(envelope.message, cx));
        Delivery::Answered(answer, timer)
    }
}

impl<A, M> MessageResponse<ActorHost<A>, Envelope<M>> for Delivery<A, M::Result>
where
    A: Child,
    M: Message,
{
    fn handle(self, ctx: &mut Context<ActorHost<A>>, sender: Option<OneshotSender<M::Result>>) {
        let Delivery::Answered(Handled(form), timer) = self else {
            return;
        };
        let answer = |value, sender: Option<OneshotSender<M::Result>>| {
            // A caller that gave up does not need the answer.
            let _ = sender.map(|sender| sender.send(value));
        };
        match form {
            HandledKind::Now(value) => {
                // Before the answer, so that the caller sees no work in progress.
                drop(timer);
                answer(value, sender);
            }
            HandledKind::Atomic(future) => ctx.wait(Atomically(future).map(move |value, _, _| {
                drop(timer);
                answer(value, sender);
            })),
            HandledKind::Later(pending) => {
                // Without a value the sender is dropped, and the caller gets `AskError::Lost`.
                let forward = async move {
                    match sender {
                        Some(mut sender) => tokio::select! {
                            biased;
                            value = pending => drop(value.map(|value| answer(value, Some(sender)))),
                            // A caller that gave up closes the reply.
                            () = sender.closed() => {}
                        },
                        None => drop(pending.await),
                    }
                };
                ctx.spawn(wrap_future::<_, ActorHost<A>>(forward));
            }
        }
    }
}
