//! An actor: the future of its cell, owned for the life of the process so that address and mailbox never close.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use actix::{Context, dev::ContextFut};

use crate::{
    Exit, Fault, StartCx, Vitals,
    body::{Body, Kill},
    child::{Cell, Child, Next, NextChild, Shared},
    guard::guard,
    mailbox::MailboxSlot,
};

type CellFuture<A> = ContextFut<Cell<A>, Context<Cell<A>>>;

pub(crate) struct ActorBody<A: Child, F> {
    future: Pin<Box<CellFuture<A>>>,
    next: NextChild<A>,
    shared: Arc<Shared<A>>,
    make: F,
    up: bool,
}

impl<A: Child, F> ActorBody<A, F> {
    pub(crate) fn new(slot: MailboxSlot<A>, make: F, vitals: &Arc<Vitals>) -> Self {
        vitals.add_gauge("mailbox", slot.mailbox.gauge().clone());
        let shared = Shared::new(vitals.clone(), slot.mailbox);
        let next: NextChild<A> = Rc::new(RefCell::new(Next::Vacate));
        let context = Context::with_receiver(slot.receiver);
        let future = Box::pin(context.into_future(Cell::vacant(shared.clone(), next.clone())));
        Self { future, next, shared, make, up: false }
    }

    /// Replaces the incarnation in the cell by what is in `next`, dropping the old one and its futures.
    fn replace(&mut self) -> Result<(), Exit> {
        guard(|| self.future.as_mut().get_mut().restart()).map(drop)
    }

    /// Drops the incarnation; the panic of a destructor must not leave half of it behind.
    fn clear(&mut self, next: Next<A>) -> Result<(), Exit> {
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
        *self.next.borrow_mut() = Next::Occupy(child);
        self.replace()
    }

    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Exit> {
        let mut polled = guard(|| self.future.as_mut().poll(cx));
        self.up = true;
        if matches!(polled, Ok(Poll::Pending)) && self.shared.vitals.is_draining() {
            // The drain watch may have been asked before the future that finished the last work: ask again.
            polled = guard(|| self.future.as_mut().poll(cx));
        }
        let (exit, next) = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => (self.shared.take_exit().unwrap_or(Exit::Normal), Next::Vacate),
            Err(panicked) => (panicked.clone(), Next::Bury(panicked)),
        };
        self.shared.vitals.hand().lose();
        match self.clear(next) {
            // A destructor that panics spoils a good end, but does not hide a bad one.
            Err(panicked) if !exit.is_abnormal() => Poll::Ready(panicked),
            _ => Poll::Ready(exit),
        }
    }

    fn is_up(&self) -> bool {
        self.up
    }

    fn kill(&mut self, _exit: Exit) -> Kill {
        let _ = self.clear(Next::Vacate);
        Kill::Done
    }

    fn runs_while_paused(&self) -> bool {
        false
    }
}
