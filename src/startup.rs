//! The wait for readiness. The service manager is notified once every child is ready, and of the missing
//! children if the start is slow.
//!
//! A slow start never fails, since a broker may come back.

use std::time::{Duration, Instant};

use orchestrator_supervise::Tree;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::{service_manager::ServiceManager, topology::ADMIN};

/// Time between two checks at first.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Time after which a start counts as slow.
const SLOW_AFTER: Duration = Duration::from_secs(60);
/// Time between two checks of a slow start.
const SLOW_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Number of children that the status names; the rest is counted.
const NAMED_MAX: usize = 8;

/// State of the wait for readiness.
#[derive(Debug)]
pub(crate) struct Startup {
    started: Instant,
    /// `None` once the process was ready.
    checks: Option<Interval>,
    is_slow: bool,
}

impl Startup {
    /// Starts the wait. Needs a running arbiter.
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), checks: Some(checks(CHECK_INTERVAL)), is_slow: false }
    }

    /// True once the process was ready.
    pub(crate) fn is_over(&self) -> bool {
        self.checks.is_none()
    }

    /// Waits until [`Self::check`] is due; for ever once the process was ready.
    pub(crate) async fn tick(&mut self) {
        match &mut self.checks {
            Some(checks) => drop(checks.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Notifies the service manager if the process is ready or the start is slow.
    pub(crate) fn check(&mut self, tree: &Tree, manager: &ServiceManager) {
        let missing = orchestrator_admin::readiness_failures(tree, ADMIN);
        if missing.is_empty() {
            tracing::info!(seconds = self.started.elapsed().as_secs_f64(), "ready");
            manager.ready();
            if self.is_slow {
                manager.set_status("");
            }
            self.checks = None;
        } else if self.started.elapsed() > SLOW_AFTER {
            let waits_for = list(&missing);
            manager.extend_start(&format!("waiting for {waits_for}"), 4 * SLOW_CHECK_INTERVAL);
            if !self.is_slow {
                tracing::warn!(waits_for, "not ready yet, still waiting");
                self.is_slow = true;
                self.checks = Some(checks(SLOW_CHECK_INTERVAL));
            }
        }
    }
}

fn checks(every: Duration) -> Interval {
    let mut checks = interval(every);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks
}

/// Joins children in one line.
pub(crate) fn list(missing: &[String]) -> String {
    let mut text = missing.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
    if let Some(more) = missing.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        text.push_str(&format!("; and {more} more: see `orchestrator tree`"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let missing: Vec<String> = (0..10).map(|n| format!("c{n}")).collect();
        assert_eq!(list(&missing[..2]), "c0; c1");
        assert_eq!(list(&missing[..8]), "c0; c1; c2; c3; c4; c5; c6; c7");
        assert!(list(&missing).ends_with("c7; and 2 more: see `orchestrator tree`"));
    }
}
