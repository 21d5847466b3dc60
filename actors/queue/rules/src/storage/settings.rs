//! Settings of hand-outs.

use serde::{Deserialize, Serialize};

use super::Limits;

/// Settings of hand-outs, the same for all instances of a queue. PostgreSQL keeps them as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoutSettings {
    /// Seconds for which a job that was not reported done keeps its attribute path from being handed out
    /// again.
    pub hold_secs: i64,
    /// Hands a job out again after its hold if no worker reported it done (CONTRACT QR28).
    pub redeliver_after_lease: bool,
    /// Maximum number of attempts that are kept; 0 keeps none.
    pub attempts: u64,
    /// Limits of jobs in flight.
    #[serde(rename = "limit")]
    pub limits: Limits,
}

impl Default for HandoutSettings {
    fn default() -> Self {
        Self { hold_secs: 43_200, redeliver_after_lease: false, attempts: 200_000, limits: Limits::default() }
    }
}
