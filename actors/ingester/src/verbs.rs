//! Verb of the console, and the text of its answer.

use std::collections::BTreeMap;

use orchestrator_subsystem::{columns::align, text, verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ingester_state::BuildMeta;

verb! {
    "status", Reads -> IngesterStatus, text |_, answer| page(answer);
    /// Show the mapping, the streams and the workers of each ingester
    ///
    /// Example: orchestrator ingester status
    pub(crate) struct Status {}
}

/// Answer to [`Status`].
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct IngesterStatus {
    /// Value of the ingester's key in Redis.
    pub(crate) state: PublishedState,
    /// True while parameters or acknowledgements are requested again.
    pub(crate) pending_requests: bool,
    pub(crate) workers: Vec<WorkerRow>,
}

/// Value of the configuration key, as [`IngesterState`](crate::ingester_state::IngesterState) is written.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PublishedState {
    pub(crate) service_uuid: String,
    pub(crate) mapping_uuid: Option<String>,
    pub(crate) dranspose_version: String,
    pub(crate) mapreduce_version: Option<BuildMeta>,
    pub(crate) parameters_hash: String,
    pub(crate) processed_events: u64,
    /// Events a second, over the last full second.
    pub(crate) event_rate: f64,
    pub(crate) name: String,
    pub(crate) url: String,
    /// By process UUID.
    pub(crate) connected_workers: BTreeMap<String, WorkerEntry>,
    pub(crate) streams: Vec<String>,
    pub(crate) orchestrator: StreamMetrics,
}

/// A worker in the configuration key.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WorkerEntry {
    pub(crate) name: String,
    pub(crate) service_uuid: String,
    /// Unix time, in seconds.
    pub(crate) last_seen: f64,
}

/// Metrics of the streams, by name of the stream and of the metric.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StreamMetrics {
    pub(crate) streams: BTreeMap<String, BTreeMap<String, i64>>,
}

/// A worker and its queue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WorkerRow {
    pub(crate) worker: String,
    pub(crate) connected: bool,
    /// Events sent.
    pub(crate) events: u64,
    /// Bytes sent.
    pub(crate) bytes: u64,
    pub(crate) queued_messages: u64,
    pub(crate) queued_bytes: u64,
    pub(crate) spilled_bytes: u64,
    /// Age of the oldest message in the queue.
    pub(crate) oldest_ms: Option<u64>,
}

/// Text of one ingester: a summary line, a table of streams, a table of workers.
fn page(status: &IngesterStatus) -> String {
    let state = &status.state;
    let mapping = state.mapping_uuid.as_deref().unwrap_or("-");
    let head = format!(
        "ingester {}, url {}, mapping {mapping}, events {}, events/s {:.1}\n",
        state.name, state.url, state.processed_events, state.event_rate
    );
    let streams = table(
        ["STREAM", "ITEMS", "WAITING", "OLDEST MS", "GAPS", "MISSING", "INVALID", "LOST"],
        state.orchestrator.streams.iter().map(|(name, metrics)| {
            let number = |key| metrics.get(key).map_or_else(|| "-".to_owned(), i64::to_string);
            let keys = [
                "items",
                "waiting_items",
                "oldest_item",
                "gaps",
                "missing_frames",
                "invalid_messages",
                "lost_items",
            ];
            std::iter::once(name.clone()).chain(keys.map(number)).collect()
        }),
    );
    let workers = text::of(&status.workers, "no worker\n");
    head + &streams + &workers
}

fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    cells.extend(rows);
    align(&cells, &(1..N).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_streams_and_workers() {
        let metrics = [("items", 9), ("waiting_items", 2), ("oldest_item", 31), ("gaps", 1)];
        let more = [("missing_frames", 4), ("invalid_messages", 0), ("lost_items", 0)];
        let metrics = metrics.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value)).collect();
        let status = IngesterStatus {
            state: PublishedState {
                service_uuid: String::new(),
                mapping_uuid: None,
                dranspose_version: String::new(),
                mapreduce_version: None,
                parameters_hash: String::new(),
                processed_events: 7,
                event_rate: 3.25,
                name: "eiger-ingester".to_owned(),
                url: "tcp://node7:10010".to_owned(),
                connected_workers: BTreeMap::new(),
                streams: Vec::new(),
                orchestrator: StreamMetrics { streams: [("eiger".to_owned(), metrics)].into() },
            },
            pending_requests: false,
            workers: vec![WorkerRow {
                worker: "w1".to_owned(),
                connected: true,
                events: 5,
                bytes: 0,
                queued_messages: 0,
                queued_bytes: 0,
                spilled_bytes: 0,
                oldest_ms: None,
            }],
        };
        let expected = "\
ingester eiger-ingester, url tcp://node7:10010, mapping -, events 7, events/s 3.2
STREAM  ITEMS  WAITING  OLDEST MS  GAPS  MISSING  INVALID  LOST
eiger       9        2         31     1        4        0     0
WORKER  CONNECTED  EVENTS  BYTES  QUEUED MESSAGES  QUEUED BYTES  SPILLED BYTES  OLDEST MS
w1      yes             5      0                0             0              0  -
";
        assert_eq!(page(&status), expected);
    }
}
