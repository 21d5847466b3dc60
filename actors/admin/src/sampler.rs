//! The sampler of the history.

use std::{convert::Infallible, time::Duration};

use orchestrator_supervise::Tree;
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    crashes::add_samples,
    history::{History, STEP_MS},
};

/// Records a sample of the tree whenever one is due, and adds those of the minute before to new crash
/// reports.
pub(crate) async fn sample(tree: &Tree, history: &Mutex<History>) -> Infallible {
    let mut clock = interval(Duration::from_millis(STEP_MS));
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        clock.tick().await;
        let snapshot = tree.snapshot();
        {
            let mut history = history.lock();
            if history.is_due(snapshot.captured_at_ms) {
                history.record(&snapshot);
            }
        }
        add_samples(tree.crash_log(), history);
    }
}
