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
    body::Body,
    cell::{Cell, NextChild, Shared},
    child::Child,
    guard::guard,
    mailbox::Slot,
};

pub(crate) struct ActorBody<A: Child, F> {
    future: Pin<Box<ContextFut<Cell<A>, Context<Cell<A>>>>>,
    next: NextChild<A>,
    shared: Arc<Shared<A>>,
    make: F,
}

impl<A: Child, F> ActorBody<A, F> {
    pub(crate) fn new(slot: Slot<A>, make: F, vitals: &Arc<Vitals>) -> Self {
        vitals.add_gauge("mailbox", slot.mailbox.gauge().clone());
        let shared = Shared::new(vitals.clone(), slot.mailbox);
        let next: NextChild<A> = Rc::new(RefCell::new(None));
        let context = Context::with_receiver(slot.receiver);
        let future = Box::pin(context.into_future(Cell::vacant(shared.clone(), next.clone())));
        Self { future, next, shared, make }
    }

    /// Replaces the incarnation in the cell by what is in `next`, dropping the old one.
    fn replace(&mut self) -> Result<(), Exit> {
        guard(|| self.future.as_mut().get_mut().restart()).map(drop)
    }
}

impl<A, F> Body for ActorBody<A, F>
where
    A: Child,
    F: FnMut(&StartCx) -> Result<A, Fault>,
{
    fn start(&mut self, cx: StartCx) -> Result<(), Exit> {
        self.shared.take_exit();
        let child = guard(|| (self.make)(&cx))?.map_err(Exit::Failed)?;
        *self.next.borrow_mut() = Some(child);
        self.replace()
    }

    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Exit> {
        let polled = guard(|| self.future.as_mut().poll(cx));
        let exit = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => self.shared.take_exit().unwrap_or(Exit::Normal),
            Err(panicked) => panicked,
        };
        // A destructor that panics is the last thing this incarnation does; its exit stands.
        let _ = self.replace();
        Poll::Ready(exit)
    }

    fn kill(&mut self) -> bool {
        let _ = self.replace();
        true
    }

    fn runs_while_paused(&self) -> bool {
        false
    }
}
