//! Body of a thread, for blocking code. It can be asked to stop, but cannot be dropped.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    thread,
};

use orchestrator_observe::{Exit, Fault};
use tokio::sync::oneshot;

use crate::{
    StartCx,
    activity::Scope,
    body::{Body, Kill},
    guard::guard,
};

pub(crate) struct ThreadBody<F> {
    run: Arc<F>,
    ended: Option<oneshot::Receiver<Exit>>,
}

impl<F> ThreadBody<F> {
    pub(crate) fn new(run: Arc<F>) -> Self {
        Self { run, ended: None }
    }
}

impl<F> Body for ThreadBody<F>
where
    F: Fn(StartCx) -> Result<(), Fault> + Send + Sync + 'static,
{
    fn start(&mut self, cx: StartCx) -> Result<(), Exit> {
        let (sender, receiver) = oneshot::channel();
        let run = self.run.clone();
        let name = cx.child.path().rsplit('/').next().unwrap_or("child").to_owned();
        let (span, scope) = (tracing::Span::current(), Scope::of_current());
        let body = move || {
            let _span = span.enter();
            let stop = cx.stop.clone();
            let exit = match scope.run(|| guard(|| run(cx))) {
                Ok(Ok(())) if stop.is_cancelled() => Exit::Shutdown,
                Ok(Ok(())) => Exit::Normal,
                Ok(Err(fault)) => Exit::Failed(fault),
                Err(panicked) => panicked,
            };
            // The receiver is gone only when the process ends.
            let _ = sender.send(exit);
        };
        thread::Builder::new()
            .name(name)
            .spawn(body)
            .map_err(|error| Exit::Failed(Fault::new(format!("cannot start a thread: {error}"))))?;
        self.ended = Some(receiver);
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        let Some(ended) = self.ended.as_mut() else {
            return Poll::Pending;
        };
        Pin::new(ended).poll(cx).map(|exit| {
            self.ended = None;
            exit.unwrap_or(Exit::Killed)
        })
    }

    fn kill(&mut self, _exit: Exit) -> Kill {
        if self.ended.is_none() { Kill::Done } else { Kill::Impossible }
    }
}
