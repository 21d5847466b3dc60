//! From the first child to readiness: the service manager hears of it when nothing is missing any more, and what is missing
//! when it takes long. Starting goes on all the same: a broker that is away comes back.

use std::time::{Duration, Instant};

use orchestrator_supervise::Tree;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::{service_manager::ServiceManager, topology::ROOT};

/// Between two looks, as long as there is hope that it takes no time.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// After so long, what is missing is named.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks after that; the service manager is asked for as much patience each time.
const LOOK_LATER: Duration = Duration::from_secs(5);
/// Culprits that are named; the rest is counted.
const NAMED_MAX: usize = 8;

/// The wait for readiness.
#[derive(Debug)]
pub(crate) struct Startup {
    begun: Instant,
    /// None once the process was ready.
    looks: Option<Interval>,
    named: bool,
}

impl Startup {
    /// Begins now. Needs a running arbiter.
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), looks: Some(looks(LOOK_EVERY)), named: false }
    }

    /// Was the process ready once?
    pub(crate) fn is_over(&self) -> bool {
        self.looks.is_none()
    }

    /// Waits until it is time for [`Self::look`]; for ever once the process was ready.
    pub(crate) async fn tick(&mut self) {
        match &mut self.looks {
            Some(looks) => drop(looks.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Says that the process is ready, if it is; after a while, what it waits for.
    pub(crate) fn look(&mut self, tree: &Tree, manager: &ServiceManager) {
        let culprits = orchestrator_admin::culprits(tree, &format!("{ROOT}/admin"));
        if culprits.is_empty() {
            tracing::info!(seconds = self.begun.elapsed().as_secs_f64(), "ready");
            manager.ready();
            if self.named {
                manager.nothing_to_tell();
            }
            self.looks = None;
        } else if self.begun.elapsed() > PATIENCE {
            let waits_for = list(&culprits);
            manager.still_starting(&waits_for, 4 * LOOK_LATER);
            if !self.named {
                tracing::warn!(waits_for, "not ready yet: starting goes on");
                self.named = true;
                self.looks = Some(looks(LOOK_LATER));
            }
        }
    }
}

fn looks(every: Duration) -> Interval {
    let mut looks = interval(every);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

/// What is waited for, in one line.
fn list(culprits: &[String]) -> String {
    let mut text = culprits.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
    if let Some(more) = culprits.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        text.push_str(&format!("; and {more} more: see `orchestrator tree`"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let culprits: Vec<String> = (0..10).map(|n| format!("c{n}")).collect();
        assert_eq!(list(&culprits[..2]), "c0; c1");
        assert_eq!(list(&culprits[..8]), "c0; c1; c2; c3; c4; c5; c6; c7");
        assert!(list(&culprits).ends_with("c7; and 2 more: see `orchestrator tree`"));
    }
}
