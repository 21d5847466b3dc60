//! The end of a run with finite work.

use orchestrator_supervise::Tree;

/// Waits until the child at `path` has exited normally; for ever if there is no such child. A child that an
/// operator stopped has not exited: it may be started again.
pub(crate) async fn wait_for_normal_exit(tree: &Tree, path: Option<&str>) {
    let Some(child) = path.and_then(|path| tree.child(path)) else { return std::future::pending().await };
    let events = tree.event_log();
    let mut seen = events.newest();
    // The last exit is recorded before its event is published.
    while child.last_exit().is_none_or(|last| last.kind != "normal") {
        events.wait_after(seen).await;
        seen = events.newest();
    }
}
