//! Pause of one child.

use std::time::Duration;

use orchestrator_observe::now_ms;
use serde::{Deserialize, Serialize};

/// Longest sleep until a pause is looked at again: the system's clock may jump.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Pause by an operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseSpan {
    /// Time at which it ends by itself, milliseconds since 1970; None: it lasts until it is resumed.
    pub until_ms: Option<u64>,
}

impl PauseSpan {
    /// Returns true once its time has come.
    pub fn is_over(self) -> bool {
        self.until_ms.is_some_and(|until_ms| until_ms <= now_ms())
    }

    /// Time after which to look again whether it is over; None if it has no end.
    pub fn look_again(self) -> Option<Duration> {
        let left = Duration::from_millis(self.until_ms?.saturating_sub(now_ms()));
        Some(left.min(LOOK_AGAIN))
    }

    /// Waits until [`Self::is_over`].
    pub(crate) async fn wait_over(self) {
        while !self.is_over() {
            tokio::time::sleep(self.look_again().unwrap_or(LOOK_AGAIN)).await;
        }
    }
}

/// Decides whether a child takes new messages and items.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PauseState {
    /// Set by an operator; outlives restarts.
    pub(crate) by_operator: Option<PauseSpan>,
    /// A graceful stop overrides the pause, so that waiting messages are handled.
    pub(crate) draining: bool,
}

impl PauseState {
    pub(crate) fn is_paused(self) -> bool {
        self.by_operator.is_some_and(|pause| !pause.is_over()) && !self.draining
    }
}
