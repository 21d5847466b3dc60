//! Gauges of all queues of the Faktory server, from its answers to `INFO`. With the sets, which the producer
//! has, they are what a separate exporter shows.

use std::{collections::BTreeMap, sync::Arc};

use orchestrator_observe::metrics;
use orchestrator_producer_rules::queue_state::QueueState;
use orchestrator_supervise::Vitals;
use orchestrator_text::sanitize_to;

/// Maximum number of queues with a gauge; further ones have none.
const QUEUES_MAX: usize = 64;
/// Maximum length of a queue's name in a label, in bytes.
const NAME_MAX: usize = 100;

metrics! {
    /// Gauge of one queue.
    struct QueueGauge by "queue" {
        /// Jobs that wait in a queue of the Faktory server.
        waiting: gauge("jobs") as "server_queue",
    }
}

/// Gauges of a server's queues.
#[derive(Debug)]
pub(super) struct QueueGauges {
    vitals: Arc<Vitals>,
    queues: BTreeMap<String, QueueGauge>,
}

impl QueueGauges {
    /// The gauges are registered once a queue is known.
    pub(super) fn new(vitals: &Arc<Vitals>) -> Self {
        Self { vitals: vitals.clone(), queues: BTreeMap::new() }
    }

    /// A queue that is gone has no jobs.
    pub(super) fn update(&mut self, state: &QueueState) {
        for (queue, gauge) in &self.queues {
            gauge.waiting.set(state.length(queue));
        }
        for (queue, jobs) in &state.queues {
            if self.queues.len() < QUEUES_MAX && !self.queues.contains_key(queue) {
                let gauge = QueueGauge::register(&self.vitals, &sanitize_to(queue, NAME_MAX));
                gauge.waiting.set(*jobs);
                self.queues.insert(queue.clone(), gauge);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orchestrator_supervise::testing;

    use super::*;

    #[test]
    fn a_queue_that_is_gone_is_empty_and_the_number_of_queues_is_bounded() {
        let vitals = testing::vitals("faktory");
        let mut gauges = QueueGauges::new(&vitals);
        let state = |names: &[&str]| QueueState {
            queues: names.iter().map(|name| ((*name).to_owned(), 3)).collect(),
            ..QueueState::default()
        };
        gauges.update(&state(&["mail"]));
        gauges.update(&state(&[]));
        assert_eq!(gauges.queues["mail"].waiting.get(), 0);
        let many: Vec<String> = (0..1_000).map(|number| format!("queue{number}")).collect();
        gauges.update(&state(&many.iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!(gauges.queues.len(), QUEUES_MAX);
    }
}
