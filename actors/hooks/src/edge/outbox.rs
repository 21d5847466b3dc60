//! Thread that stores the occurrences that wait for hooks.

mod error;
mod hook_queue;
mod store;

use std::path::{Path, PathBuf};

pub use self::error::OutboxError;
pub(crate) use self::hook_queue::HookQueue;
use self::store::Store;

use crate::messages::OutboxRequest;
use orchestrator_edge::{LinkState, RetryPolicy};
use orchestrator_observe::metrics;
use orchestrator_supervise::{Factory, Fault, InboxSlot, StartCx};

metrics! {
    /// Metrics of the outbox.
    struct OutboxMetrics {
        /// Occurrences that were dropped because too many waited for the receiver of a hook.
        dropped: counter("occurrences"),
    }
}

pub(crate) fn factory(path: &Path, hooks: Vec<HookQueue>, slot: &InboxSlot<OutboxRequest>) -> Factory {
    let (path, requests) = (path.to_owned(), slot.clone());
    Factory::thread(move |cx| run(&cx, &requests, &path, &hooks)).with_inbox("requests", slot)
}

/// Creates the directory of the outbox, and checks that no other instance uses it.
pub(crate) fn preflight(path: &Path) -> Result<(), OutboxError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(directory) = directory {
        std::fs::create_dir_all(directory)
            .map_err(|source| OutboxError::Directory { path: PathBuf::from(directory), source })?;
    }
    match Store::open(path, &[]) {
        Err(error @ (OutboxError::Locked { .. } | OutboxError::Newer { .. })) => Err(error),
        // The child waits for temporary errors.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn run(cx: &StartCx, slot: &InboxSlot<OutboxRequest>, path: &Path, hooks: &[HookQueue]) -> Result<(), Fault> {
    let link = LinkState::new(cx, "sqlite", path.display().to_string(), RetryPolicy::LOCAL);
    let metrics = OutboxMetrics::register(&cx.vitals);
    let (mut inbox, mut failed) = (slot.open(), None);
    loop {
        let error = match Store::open(path, hooks) {
            Err(error) => error,
            Ok(mut store) => loop {
                link.succeeded();
                let next = failed.take().or_else(|| inbox.next_blocking(cx));
                let Some(request) = next else { return Ok(()) };
                let _work = cx.vitals.begin_work("store");
                match serve(&mut store, request) {
                    Ok(()) => {}
                    Err((request, error)) => {
                        failed = Some(request);
                        break error;
                    }
                }
                for (hook, dropped) in store.take_dropped() {
                    metrics.dropped.add(dropped);
                    cx.vitals.note(format!(
                        "hook {hook}: dropped the {dropped} oldest occurrences, since too many wait for its receiver or are put aside"
                    ));
                }
            },
        };
        if !link.retry_blocking(&error) {
            return Ok(());
        }
    }
}

/// Carries out a request and answers it. The caller may have given up.
fn serve(store: &mut Store<'_>, request: OutboxRequest) -> Result<(), (OutboxRequest, OutboxError)> {
    match request {
        OutboxRequest::Position { reply } => match store.position() {
            Ok(position) => drop(reply.send(position)),
            Err(error) => return Err((OutboxRequest::Position { reply }, error)),
        },
        OutboxRequest::Append { events, position, reply } => {
            // A collector that has given up sends the occurrences again.
            if reply.is_closed() {
                return Ok(());
            }
            match store.append(&events, position) {
                Ok(()) => drop(reply.send(())),
                Err(error) => return Err((OutboxRequest::Append { events, position, reply }, error)),
            }
        }
        OutboxRequest::Oldest { hook, reply } => match store.oldest(&hook) {
            Ok(oldest) => drop(reply.send(oldest)),
            Err(error) => return Err((OutboxRequest::Oldest { hook, reply }, error)),
        },
        OutboxRequest::Remove { hook, number, reply } => match store.remove(&hook, number) {
            Ok(()) => drop(reply.send(())),
            Err(error) => return Err((OutboxRequest::Remove { hook, number, reply }, error)),
        },
        OutboxRequest::PutAside { hook, number, reason, reply } => {
            match store.put_aside(&hook, number, &reason) {
                Ok(()) => drop(reply.send(())),
                Err(error) => return Err((OutboxRequest::PutAside { hook, number, reason, reply }, error)),
            }
        }
        OutboxRequest::SendAgain { hook, reply } => match store.send_again(&hook) {
            Ok(()) => drop(reply.send(())),
            Err(error) => return Err((OutboxRequest::SendAgain { hook, reply }, error)),
        },
    }
    Ok(())
}
