//! Report of an ingester without a mapping.

use orchestrator_supervise::Vitals;

use super::Ingester;
use crate::edge::redis::UPDATES_KEY;

impl Ingester {
    /// Reports to `GET /v1/why` whether the controller has posted a mapping.
    pub(super) fn report_mapping(&self, vitals: &Vitals) {
        if self.mapping.is_some() {
            return vitals.clear_blocker();
        }
        let redis = &self.handles.redis_endpoint;
        let evidence = [
            format!("no update in `{UPDATES_KEY}` of Redis at {redis} since the start"),
            "an update from before the start does not count".to_owned(),
        ];
        let help = format!(
            "post a mapping to the controller; redis-cli {} XREVRANGE {UPDATES_KEY} + - COUNT 1 shows the last one",
            self.handles.redis_cli
        );
        vitals.set_blocker_with("no_mapping", format!("no mapping in Redis at {redis}"), &evidence, help);
    }
}
