//! Debug lines about single jobs, rows and events.

/// Target of debug lines about single jobs, rows and events. The program limits their rate.
pub const DETAIL: &str = "orchestrator::detail";
