//! The reader: answers questions beside the writer, through a store of its own.

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{Fault, FigureKind, InboxSlot, StartCx};

use crate::{
    edge::pause,
    messages::ReadRequest,
    store::{Ask, StoreError},
};

/// One incarnation of the reader. The store is connected to when the first question comes, so that one that is made by the
/// writer is there. A question that meets a store that is away is answered so: whoever asks decides whether to wait.
///
/// # Errors
/// None.
pub(crate) async fn run<S: Ask>(
    cx: &StartCx,
    slot: &InboxSlot<ReadRequest>,
    mut tries: Reconnect,
    connect: impl AsyncFn() -> Result<S, StoreError>,
) -> Result<(), Fault> {
    let answered = cx.vitals.declare("answered", "questions", FigureKind::Counter);
    let mut inbox = slot.open();
    let mut store = None;
    while let Some(ReadRequest { question, reply }) = inbox.next(cx).await {
        let _in_hand = cx.vitals.hold("question");
        let answer = match &mut store {
            Some(store) => S::read(store, &question).await,
            None => match connect().await {
                Ok(fresh) => store.insert(fresh).read(&question).await,
                Err(error) => Err(error),
            },
        };
        match &answer {
            Err(StoreError::Away(reason)) => {
                store = None;
                let delay = tries.failed(reason.clone());
                let _ = reply.send(answer);
                if !pause(cx, delay).await {
                    return Ok(());
                }
            }
            Ok(_) | Err(StoreError::Refused(_)) => {
                tries.succeeded();
                answered.add(1);
                // Whoever asked may have given up.
                let _ = reply.send(answer);
            }
        }
    }
    Ok(())
}
