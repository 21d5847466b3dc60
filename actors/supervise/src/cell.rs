//! The one actix actor: a cell that holds an incarnation of a child and opens the envelopes sent to it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Instant,
};

use actix::{
    Actor, ActorContext, ActorFuture, AsyncContext, Context, Handler, Message, Supervised,
    dev::{MessageResponse, OneshotSender},
    fut::{ActorFutureExt, wrap_future},
};

use crate::{
    Exit,
    child::{Answer, Cell, Child, ChildCx, Form, Handle, Next, NextChild, Shared},
    guard::guard,
    in_progress::WorkGuard,
    mailbox_stats::{MessageStats, Seat},
    refusal::AskError,
};

/// Messages handled in one go before the arbiter, and with it pause and kill, gets its turn.
const BREATH: u32 = 64;

impl<A: Child> Cell<A> {
    pub(crate) fn vacant(shared: Arc<Shared<A>>, next: NextChild<A>) -> Self {
        Self { child: None, next, shared, breath: 0 }
    }

    /// Runs `f` on the current incarnation.
    pub(crate) fn with<R>(
        &mut self,
        ctx: &mut Context<Self>,
        f: impl FnOnce(&mut A, &mut ChildCx<'_, A>) -> R,
    ) -> R {
        let child = self.child.as_mut().expect("the runner polls a cell only while it is occupied");
        f(child, &mut ChildCx { ctx, shared: &self.shared })
    }

    /// The last call of an incarnation. It may come while a panic unwinds, where another would end the process.
    fn bury(&mut self, exit: &Exit) {
        if let Some(child) = self.child.as_mut()
            && let Err(panicked) = guard(|| child.stopped(exit))
        {
            self.shared.set_exit(panicked);
        }
    }
}

impl<A: Child> Actor for Cell<A> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if self.child.is_none() {
            // actix polls a context once more when it is dropped.
            return;
        }
        ctx.spawn(DrainWatch);
        self.with(ctx, A::started);
        // The first poll ends here, so that a child that starts paused handles no message.
        ctx.wait(Yield(false));
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        let exit = self.shared.exit();
        self.bury(&exit);
    }
}

impl<A: Child> Supervised for Cell<A> {
    fn restarting(&mut self, _ctx: &mut Self::Context) {
        self.breath = 0;
        let next = std::mem::replace(&mut *self.next.borrow_mut(), Next::Vacate);
        if let Next::Bury(exit) = &next {
            self.bury(exit);
        }
        self.child = if let Next::Occupy(child) = next { Some(child) } else { None };
    }
}

/// Ends a draining cell once nothing waits and the child has finished what it began.
struct DrainWatch;

impl<A: Child> ActorFuture<Cell<A>> for DrainWatch {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        cell: &mut Cell<A>,
        ctx: &mut Context<Cell<A>>,
        _task: &mut TaskContext<'_>,
    ) -> Poll<()> {
        // The body polls a draining context until nothing moves any more, so no waker is needed.
        let vitals = &cell.shared.vitals;
        // A context that waits has just been given an answer that takes time: it is not finished.
        let idle = vitals.is_draining() && vitals.depth() == 0 && !ctx.waiting();
        if idle && cell.child.as_ref().is_none_or(A::drained) {
            cell.shared.set_exit(Exit::Shutdown);
            ctx.stop();
        }
        Poll::Pending
    }
}

/// Gives the arbiter a turn: pending once.
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

/// A message on its way, with its place in the mailbox.
pub(crate) struct Envelope<M> {
    message: M,
    seat: Seat,
    stats: Arc<MessageStats>,
}

impl<M: Message> Message for Envelope<M> {
    type Result = M::Result;
}

impl<M> Envelope<M> {
    pub(crate) fn new(message: M, seat: Seat, stats: Arc<MessageStats>) -> Self {
        Self { message, seat, stats }
    }

    pub(crate) fn into_message(self) -> M {
        self.message
    }
}

/// Times the handling of one message and keeps its name in progress.
pub(crate) struct Ticket {
    stats: Arc<MessageStats>,
    begun: Instant,
    _in_hand: WorkGuard,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.stats.handling.record(self.begun.elapsed());
    }
}

/// What becomes of an envelope: an answer, or nothing after a purge (the asker sees the message as lost).
pub(crate) enum Delivery<A: Child, R> {
    Purged,
    Answered(Answer<A, R>, Ticket),
}

impl<A, M> Handler<Envelope<M>> for Cell<A>
where
    A: Handle<M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    type Result = Delivery<A, M::Result>;

    fn handle(&mut self, envelope: Envelope<M>, ctx: &mut Self::Context) -> Self::Result {
        self.breath += 1;
        if self.breath.is_multiple_of(BREATH) {
            ctx.wait(Yield(false));
        }
        let Some(waited) = envelope.seat.leave() else {
            return Delivery::Purged;
        };
        envelope.stats.wait.record(waited);
        let ticket = Ticket {
            begun: Instant::now(),
            _in_hand: self.shared.vitals.begin_work(envelope.stats.name),
            stats: envelope.stats,
        };
        let answer = self.with(ctx, |child, cx| child.handle(envelope.message, cx));
        Delivery::Answered(answer, ticket)
    }
}

impl<A, M> MessageResponse<Cell<A>, Envelope<M>> for Delivery<A, M::Result>
where
    A: Child,
    M: Message,
{
    fn handle(self, ctx: &mut Context<Cell<A>>, sender: Option<OneshotSender<M::Result>>) {
        let Delivery::Answered(Answer(form), ticket) = self else {
            return;
        };
        let answer = |value, sender: Option<OneshotSender<M::Result>>| {
            // An asker that went away meanwhile does not want the answer.
            let _ = sender.map(|sender| sender.send(value));
        };
        match form {
            Form::Now(value) => answer(value, sender),
            Form::Atomic(future) => ctx.wait(future.map(move |value, _, _| {
                drop(ticket);
                answer(value, sender);
            })),
            Form::Later(pending) => {
                let forward = move |value: Result<M::Result, AskError>, _: &mut Cell<A>, _: &mut _| {
                    // Without a value the sender is dropped, by which the asker hears that its message is lost.
                    let _ = value.map(|value| answer(value, sender));
                };
                ctx.spawn(wrap_future::<_, Cell<A>>(pending).map(forward));
            }
        }
    }
}
