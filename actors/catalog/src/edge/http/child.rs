//! The child: takes calls, a few questions at once, and one write after the other.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Release},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use orchestrator_supervise::{Factory, Inbox, InboxSlot, StartCx};
use tokio::sync::oneshot;

use super::{desk::Desk, place::Place, request::Ask};
use crate::{
    edge::credentials::Source,
    service::{Reply, Trouble},
};

/// Questions under way at the most.
const READS: usize = 4;

/// A request, and who waits for its outcome.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) ask: Ask,
    pub(super) outcome: oneshot::Sender<Result<Reply, Trouble>>,
    /// Set before the first byte may be sent.
    pub(super) begun: Arc<AtomicBool>,
}

/// What the child is fed through.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    pub(super) reads: InboxSlot<Call>,
    pub(super) writes: InboxSlot<Call>,
}

pub(super) fn factory(place: Place, source: Source, slots: &Slots) -> Factory {
    let taken = slots.clone();
    let task = Factory::task(move |cx: StartCx| {
        let desk = Desk::new(place.clone(), source.clone(), cx.clone());
        let (mut reads, mut writes) = (taken.reads.open(), taken.writes.open());
        async move {
            let served = async { tokio::join!(read(&desk, &mut reads, &cx), write(&desk, &mut writes, &cx)) };
            tokio::select! {
                ((), ()) = served => Ok(()),
                never = desk.attend() => match never {},
            }
        }
    });
    task.with_inbox("reads", &slots.reads).with_inbox("writes", &slots.writes)
}

async fn read(desk: &Desk, calls: &mut Inbox<Call>, cx: &StartCx) {
    let mut under_way = FuturesUnordered::new();
    let mut more = true;
    while more || !under_way.is_empty() {
        tokio::select! {
            Some(()) = under_way.next() => {}
            call = calls.next(cx), if more && under_way.len() < READS => match call {
                Some(call) => under_way.push(serve(desk, call)),
                None => more = false,
            },
        }
    }
}

/// One at a time, in the order of the calls: writes that run side by side abort each other's transactions.
async fn write(desk: &Desk, calls: &mut Inbox<Call>, cx: &StartCx) {
    while let Some(call) = calls.next(cx).await {
        serve(desk, call).await;
    }
}

async fn serve(desk: &Desk, call: Call) {
    // Whoever asked has gone, and would not know what became of it.
    if call.outcome.is_closed() {
        return;
    }
    call.begun.store(true, Release);
    let outcome = desk.carry(&call.ask).await;
    // Who does not wait any more needs no answer.
    let _ = call.outcome.send(outcome);
}
