//! Report of an ingester without a mapping.

use orchestrator_observe::Link;
use orchestrator_supervise::Vitals;

use super::Ingester;
use crate::edge::redis::UPDATES_KEY;

impl Ingester {
    /// Reports to `GET /v1/why` whether the controller has posted a mapping. While Redis is away, that is the
    /// cause.
    pub(super) fn report_mapping(&self, vitals: &Vitals) {
        let is_up = matches!(self.handles.redis_child.link(), Some(Link::Up { .. }));
        if self.mapping.is_some() || !is_up {
            return vitals.clear_blocker();
        }
        let redis = &self.handles.redis_endpoint;
        let (text, known) = if self.handles.position.is_at_begin() {
            (
                format!("no mapping in Redis at {redis}, where no controller has posted any"),
                format!("`{UPDATES_KEY}` has no entry: start dranspose's controller with the same Redis"),
            )
        } else {
            (
                format!("no mapping in Redis at {redis}"),
                "an update from before the start does not count".to_owned(),
            )
        };
        let evidence = [format!("no update in `{UPDATES_KEY}` of Redis at {redis} since the start"), known];
        let help = format!(
            "post a mapping to the controller; redis-cli {} XREVRANGE {UPDATES_KEY} + - COUNT 1 shows the last one",
            self.handles.redis_cli
        );
        vitals.set_routine("no_mapping", text, &evidence, help);
    }
}
