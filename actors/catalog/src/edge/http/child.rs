//! The child that owns the connections. Callers carry out requests over them; the child maintains idle ones,
//! probes an unavailable server, and carries out the writes of callers that have gone.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::{FutureExt, StreamExt, stream};
use orchestrator_supervise::{Factory, StartCx};
use tokio::sync::{mpsc, watch};

use super::{
    client::{AnyWrite, CatalogClient, WRITES},
    endpoint::CatalogEndpoint,
};
use crate::edge::credentials::Source;

/// Client of the running incarnation, if there is one.
pub(super) type Running = watch::Sender<Option<Arc<CatalogClient>>>;

/// A write in progress. Dropped before its end, it is left to the child, and keeps its permit until its
/// outcome.
pub(super) struct Write {
    carried: Option<AnyWrite>,
    abandoned_writes: mpsc::UnboundedSender<AnyWrite>,
}

/// The only incarnation with connections; its end is that of the requests in progress.
struct ClientRun(Running);

pub(super) fn factory(endpoint: CatalogEndpoint, source: Source, running: Running) -> Factory {
    Factory::task(move |cx: StartCx| {
        let (abandoned_writes, mut abandoned) = mpsc::unbounded_channel();
        let client =
            Arc::new(CatalogClient::new(endpoint.clone(), source.clone(), cx.clone(), abandoned_writes));
        running.send_replace(Some(client.clone()));
        let run = ClientRun(running.clone());
        async move {
            let _run = run;
            let abandoned = stream::poll_fn(|cx| abandoned.poll_recv(cx));
            tokio::select! {
                () = client.drained() => Ok(()),
                never = client.run_background() => match never {},
                // Never ends: the client has a sender.
                () = abandoned.for_each_concurrent(WRITES, |write| write.map(drop)) => Ok(()),
            }
        }
    })
}

impl Write {
    pub(super) fn new(write: AnyWrite, abandoned_writes: mpsc::UnboundedSender<AnyWrite>) -> Self {
        Self { carried: Some(write), abandoned_writes }
    }
}

impl Future for Write {
    type Output = <AnyWrite as Future>::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(write) = &mut self.carried else { return Poll::Pending };
        let outcome = ready!(write.as_mut().poll(cx));
        self.carried = None;
        Poll::Ready(outcome)
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        if let Some(write) = self.carried.take() {
            // An incarnation that has ended carries out nothing.
            let _ = self.abandoned_writes.send(write);
        }
    }
}

impl Drop for ClientRun {
    fn drop(&mut self) {
        if let Some(client) = self.0.send_replace(None) {
            client.ended.cancel();
        }
    }
}
