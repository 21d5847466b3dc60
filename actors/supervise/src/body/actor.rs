//! Body of an actor: the future of its host, kept as long as the process runs, so that address and mailbox
//! never close.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use actix::{Context, dev::ContextFut};
use orchestrator_observe::{Exit, Fault};

use crate::{
    StartCx,
    activity::non_blocking,
    body::{Body, Kill},
    child::{ActorHost, Child, NextChild, NextIncarnation, Shared},
    child_state::ChildState,
    guard::guard,
    mailbox::MailboxSlot,
};

type HostFuture<A> = ContextFut<ActorHost<A>, Context<ActorHost<A>>>;

pub(crate) struct ActorBody<A: Child, F> {
    future: Pin<Box<HostFuture<A>>>,
    next: NextChild<A>,
    shared: Arc<Shared<A>>,
    make: F,
    up: bool,
}

impl<A: Child, F> ActorBody<A, F> {
    pub(crate) fn new(slot: MailboxSlot<A>, make: F, child: &Arc<ChildState>) -> Self {
        let shared = Shared::new(child.clone(), slot.mailbox);
        let next: NextChild<A> = Rc::new(RefCell::new(NextIncarnation::Empty));
        let context = Context::with_receiver(slot.receiver);
        let future = Box::pin(context.into_future(ActorHost::empty(shared.clone(), next.clone())));
        Self { future, next, shared, make, up: false }
    }

    fn poll_future(&mut self, cx: &mut TaskContext<'_>) -> Result<Poll<()>, Exit> {
        guard(|| non_blocking(|| self.future.as_mut().poll(cx)))
    }

    /// Replaces the incarnation in the host by `next`, and drops the old one with its futures.
    fn replace(&mut self) -> Result<(), Exit> {
        guard(|| self.future.as_mut().get_mut().restart()).map(drop)
    }

    /// Drops the incarnation. If a destructor panics, a second attempt drops the rest.
    fn clear(&mut self, next: NextIncarnation<A>) -> Result<(), Exit> {
        *self.next.borrow_mut() = next;
        let first = self.replace();
        if first.is_err() {
            let _ = self.replace();
        }
        first
    }
}

impl<A, F> Body for ActorBody<A, F>
where
    A: Child,
    F: FnMut(&StartCx) -> Result<A, Fault>,
{
    fn start(&mut self, cx: StartCx) -> Result<(), Exit> {
        self.up = false;
        self.shared.take_exit();
        let child = guard(|| (self.make)(&cx))?.map_err(Exit::Failed)?;
        *self.next.borrow_mut() = NextIncarnation::Incarnation(child);
        self.replace()
    }

    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Exit> {
        let mut polled = self.poll_future(cx);
        self.up = true;
        if matches!(polled, Ok(Poll::Pending)) && self.shared.child.is_draining() {
            // The drain watch may have run before the future that finished the last work, so the host is
            // polled once more.
            polled = self.poll_future(cx);
        }
        let (exit, next) = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => (self.shared.take_exit().unwrap_or(Exit::Normal), NextIncarnation::Empty),
            Err(panicked) => (panicked.clone(), NextIncarnation::Panicked(panicked)),
        };
        self.shared.child.vitals().mark_work_lost();
        match self.clear(next) {
            // A panic in a destructor replaces a normal exit, not an abnormal one.
            Err(panicked) if !exit.is_abnormal() => Poll::Ready(panicked),
            _ => Poll::Ready(exit),
        }
    }

    fn is_up(&self) -> bool {
        self.up
    }

    fn kill(&mut self, _exit: Exit) -> Kill {
        let _ = self.clear(NextIncarnation::Empty);
        Kill::Done
    }

    fn runs_while_paused(&self) -> bool {
        false
    }
}
