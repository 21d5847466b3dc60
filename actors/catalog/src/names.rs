//! The actors of this process that rules can name.

use std::collections::BTreeMap;

use orchestrator_supervise::Recipient;

use crate::{handler_config::Actors, handling::PlanRow};

/// The actors that rules can name.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Who works on rows.
    pub handlers: Actors,
    /// Who plans.
    pub planners: BTreeMap<String, Recipient<PlanRow>>,
}
