//! The child that carries out requests concurrently. The callers' semaphores limit their number.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Release},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use orchestrator_supervise::{Factory, InboxSlot, Reply, StartCx};

use super::{client::CatalogClient, endpoint::CatalogEndpoint, request::CatalogRequest};
use crate::{
    edge::credentials::Source,
    priority_semaphore::Permit,
    service::{CatalogResponse, RequestError},
};

/// A request and the receiver of its result.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) request: CatalogRequest,
    pub(super) reply: Reply<Result<CatalogResponse, RequestError>>,
    /// Set before the first byte may be sent.
    pub(super) may_be_sent: Arc<AtomicBool>,
    /// Held until the request is carried out, even if its caller has gone.
    pub(super) _permit: Permit,
}

pub(super) fn factory(endpoint: CatalogEndpoint, source: Source, slot: &InboxSlot<Call>) -> Factory {
    let slot_of_task = slot.clone();
    let task = Factory::task(move |cx: StartCx| {
        let client = CatalogClient::new(endpoint.clone(), source.clone(), cx.clone());
        let mut calls = slot_of_task.open();
        async move {
            let mut in_flight = FuturesUnordered::new();
            let mut more = true;
            let served = async {
                while more || !in_flight.is_empty() {
                    tokio::select! {
                        Some(()) = in_flight.next() => {}
                        call = calls.next(&cx), if more => match call {
                            Some(call) => in_flight.push(serve(&client, call)),
                            None => more = false,
                        },
                    }
                }
            };
            tokio::select! {
                () = served => Ok(()),
                never = client.run_background() => match never {},
            }
        }
    });
    task.with_inbox("calls", slot)
}

async fn serve(client: &CatalogClient, call: Call) {
    // The caller has gone and could not learn the outcome.
    if call.reply.is_closed() {
        return;
    }
    call.may_be_sent.store(true, Release);
    let result = client.execute(&call.request).await;
    // The caller may have stopped waiting.
    let _ = call.reply.send(result);
}
