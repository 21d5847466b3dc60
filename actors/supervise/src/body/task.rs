//! Body of a task: a future, created for every incarnation.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use orchestrator_observe::{Exit, Fault};

use crate::{
    StartCx,
    body::{Body, Kill},
    guard::guard,
};

pub(crate) struct TaskBody<F, Fut> {
    make: F,
    future: Option<Pin<Box<Fut>>>,
    stop: Option<tokio_util::sync::CancellationToken>,
    up: bool,
}

impl<F, Fut> TaskBody<F, Fut> {
    pub(crate) fn new(make: F) -> Self {
        Self { make, future: None, stop: None, up: false }
    }

    fn discard(&mut self) -> Result<(), Exit> {
        let future = self.future.take();
        guard(|| drop(future))
    }
}

impl<F, Fut> Body for TaskBody<F, Fut>
where
    F: FnMut(StartCx) -> Fut,
    Fut: Future<Output = Result<(), Fault>>,
{
    fn start(&mut self, cx: StartCx) -> Result<(), Exit> {
        self.up = false;
        self.stop = Some(cx.stop.clone());
        self.future = Some(Box::pin(guard(|| (self.make)(cx))?));
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        let Some(future) = self.future.as_mut() else {
            return Poll::Pending;
        };
        self.up = true;
        let stopping = self.stop.as_ref().is_some_and(|stop| stop.is_cancelled());
        let exit = match guard(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(()))) if stopping => Exit::Shutdown,
            Ok(Poll::Ready(Ok(()))) => Exit::Normal,
            Ok(Poll::Ready(Err(fault))) => Exit::Failed(fault),
            Err(panicked) => panicked,
        };
        match self.discard() {
            // A panic in a destructor replaces a normal exit, not an abnormal one.
            Err(panicked) if !exit.is_abnormal() => Poll::Ready(panicked),
            _ => Poll::Ready(exit),
        }
    }

    fn is_up(&self) -> bool {
        self.up
    }

    fn kill(&mut self, _exit: Exit) -> Kill {
        let _ = self.discard();
        Kill::Done
    }
}
