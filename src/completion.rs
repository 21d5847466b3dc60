//! The end of a run that has one: the child that was to end has done so, well, and nothing else is left to do.

use orchestrator_supervise::{Exit, Tree};

/// Waits until the child at `path` has ended by itself and well; for ever if there is none. What an operator stops may be started
/// again: that is no end.
pub(crate) async fn reached(tree: &Tree, path: Option<&str>) {
    let Some(vitals) = path.and_then(|path| tree.vitals(path)) else { return std::future::pending().await };
    let events = tree.event_log();
    let mut seen = events.newest();
    // An exit is written down before its event.
    while vitals.last_exit().is_none_or(|last| last.exit != Exit::Normal) {
        events.wait_after(seen).await;
        seen = events.newest();
    }
}
