//! Reader of the workers' reports on events that they have finished (CONTRACT ID12). It reads only while a
//! worker may be idle.

use std::time::{Duration, Instant};

use orchestrator_edge::PeerError;
use orchestrator_observe::{Metric, MetricKind};
use orchestrator_supervise::{DurableView, StartCx};
use serde::Deserialize;
use tokio::time::sleep;
use uuid::Uuid;

use super::{commands::ready_key, entry::Id, reader::StreamReader, target::RedisTarget};
use crate::{
    edge::egress::{Egress, FinishedEvent, ReportsRead},
    mapping::{Mapping, Mappings},
};

/// Interval between two reads.
const INTERVAL: Duration = Duration::from_secs(2);
/// Entries read at once; one has the events that a worker finished within a second.
const COUNT: usize = 64;
/// Longest reply, bytes; a longer entry is skipped.
const REPLY_MAX: usize = 16 << 20;

/// Reads reports when `egress` wants them, until the stop.
pub(super) async fn follow(
    target: &RedisTarget,
    egress: &Egress,
    mappings: &DurableView<Mappings>,
    cx: &StartCx,
) {
    let skipped = cx.vitals.register(
        "invalid_reports",
        "",
        MetricKind::Counter,
        "Entries of the workers' reports that could not be read and were skipped.",
    );
    let following = async {
        let mut last: Option<Reports> = None;
        loop {
            sleep(INTERVAL.min(egress.worker_idle())).await;
            let Some(epoch) = egress.wants_reports() else { continue };
            // The mapping changes before the epoch does: records for an epoch are never those of a former
            // mapping.
            let mapping = mappings.get().current;
            let Some(uuid) = mapping.uuid else { continue };
            let known = last.take().filter(|reports| reports.epoch == epoch);
            let reports = last.insert(known.unwrap_or_else(|| Reports::new(epoch, uuid, cx, &skipped)));
            if let Err(error) = reports.read(target, egress, &mapping).await {
                // The other connections report the state of Redis.
                tracing::debug!(%error, "the reports of workers could not be read; they are read again");
            }
        }
    };
    cx.stop.run_until_cancelled(following).await;
}

/// Reports of one mapping.
struct Reports {
    epoch: u64,
    reader: StreamReader,
    last: Id,
}

impl Reports {
    fn new(epoch: u64, mapping: Uuid, cx: &StartCx, skipped: &Metric) -> Self {
        let key = ready_key(mapping);
        let reader = StreamReader::new(key, COUNT, Duration::ZERO, &cx.vitals, skipped.clone());
        Self { epoch, reader, last: Id::default() }
    }

    /// Records all reports that are there when the read begins.
    async fn read(
        &mut self,
        target: &RedisTarget,
        egress: &Egress,
        mapping: &Mapping,
    ) -> Result<(), PeerError> {
        let began = Instant::now();
        let mut redis = target.connect(Duration::ZERO, REPLY_MAX).await?;
        // Each worker reports that it is ready, but the controller removes all reports when it stops.
        let Some(newest) = self.reader.newest_id(&mut redis).await? else { return Ok(()) };
        // A stream that was recreated is read from its beginning.
        self.last = if self.last <= newest { self.last } else { Id::default() };
        while self.last < newest {
            let entries = self.reader.read(&mut redis, self.last, false).await?;
            let Some((last, _)) = entries.last() else { break };
            self.last = *last;
            let reports: Vec<_> = entries.iter().filter_map(|(_, data)| parse(data.as_deref()?)).collect();
            egress.record_finished(self.epoch, &reports);
        }
        egress.record_reports_read(self.epoch, ReportsRead { began, shared: mapping.shared });
        Ok(())
    }
}

/// A report that names a worker and its finished events. The reducer reports one event, whose result it has
/// from the worker.
#[derive(Deserialize)]
struct Report<Completed> {
    worker: String,
    completed: Completed,
}

/// Last event of a report; None for an entry of another kind.
fn parse(entry: &[u8]) -> Option<FinishedEvent> {
    if let Ok(Report { worker, completed }) = serde_json::from_slice::<Report<Vec<u64>>>(entry) {
        return completed.into_iter().max().map(|event| FinishedEvent { worker, event });
    }
    let Report { worker, completed: event } = serde_json::from_slice(entry).ok()?;
    Some(FinishedEvent { worker, event })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_workers_and_of_the_reducer_are_read_and_others_ignored() {
        let event = |entry: &str| parse(entry.as_bytes()).map(|report| (report.worker, report.event));
        let worker =
            r#"{"state":"idle","source":"worker","completed":[7,9],"worker":"w1","has_result":[true,false]}"#;
        assert_eq!(event(worker), Some(("w1".to_owned(), 9)));
        let reducer = r#"{"state":"idle","source":"reducer","completed":8,"worker":"w1"}"#;
        assert_eq!(event(reducer), Some(("w1".to_owned(), 8)));
        for other in [
            r#"{"state":"ready","source":"worker","completed":[],"worker":"w1","has_result":[]}"#,
            r#"{"state":"finished","source":"reducer","completed":null,"worker":null}"#,
            r#"{"state":"finished","source":"ingester","ingester":"eiger-ingester"}"#,
            r#"{"completed":[-1],"worker":"w1"}"#,
            "[",
        ] {
            assert_eq!(event(other), None, "{other}");
        }
    }
}
