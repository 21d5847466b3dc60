//! The child: carries out calls side by side. How many there are is decided by the lanes that they come through.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Release},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use orchestrator_supervise::{Factory, InboxSlot, StartCx};
use tokio::sync::oneshot;

use super::{client::CatalogClient, place::Place, request::Ask};
use crate::{
    edge::credentials::Source,
    lane::Pass,
    service::{Reply, Trouble},
};

/// A request, and who waits for its outcome.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) ask: Ask,
    pub(super) outcome: oneshot::Sender<Result<Reply, Trouble>>,
    /// Set before the first byte may be sent.
    pub(super) begun: Arc<AtomicBool>,
    /// Given back once it is carried out, whether anybody still waits for its outcome or not.
    pub(super) _pass: Pass,
}

pub(super) fn factory(place: Place, source: Source, slot: &InboxSlot<Call>) -> Factory {
    let taken = slot.clone();
    let task = Factory::task(move |cx: StartCx| {
        let client = CatalogClient::new(place.clone(), source.clone(), cx.clone());
        let mut calls = taken.open();
        async move {
            let mut under_way = FuturesUnordered::new();
            let mut more = true;
            let served = async {
                while more || !under_way.is_empty() {
                    tokio::select! {
                        Some(()) = under_way.next() => {}
                        call = calls.next(&cx), if more => match call {
                            Some(call) => under_way.push(serve(&client, call)),
                            None => more = false,
                        },
                    }
                }
            };
            tokio::select! {
                () = served => Ok(()),
                never = client.attend() => match never {},
            }
        }
    });
    task.with_inbox("calls", slot)
}

async fn serve(client: &CatalogClient, call: Call) {
    // Whoever asked has gone, and would not know what became of it.
    if call.outcome.is_closed() {
        return;
    }
    call.begun.store(true, Release);
    let outcome = client.carry(&call.ask).await;
    // Who does not wait any more needs no answer.
    let _ = call.outcome.send(outcome);
}
