//! Rules at work.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use orchestrator_supervise::StopToken;
use tokio::sync::watch;

use crate::{agent::Call, config::RuleConfig};

/// A rule that is at work.
pub(super) struct Running {
    pub(super) config: RuleConfig,
    pub(super) calls: watch::Sender<Call>,
    pub(super) retire: StopToken,
}

/// Rules at work, by name.
pub(super) type Rules = Rc<RefCell<BTreeMap<String, Running>>>;
