//! Handling of updates, one at a time: each waits for the answers of Redis and of the new scan.

use std::time::Duration;

use orchestrator_observe::now_ms;
use orchestrator_supervise::{ChildCx, Fault};
use uuid::Uuid;

use super::{
    Ingester,
    stage::{MappingStart, Stage},
};
use crate::{
    messages::{ScanStarted, SourceReady},
    updates::ControllerUpdate,
};

/// Time-out of a scan's start, after which it is requested again.
const SCAN_START_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest number of requests for the scan of one mapping.
const SCAN_REQUESTS_MAX: u32 = 3;
/// Longest wait of a mapping for its sources: a Python class starts its generator first. The controller gives
/// up after 10 s (CONTRACT IO06).
pub(crate) const SOURCES_TIMEOUT: Duration = Duration::from_secs(3);

impl Ingester {
    /// Starts handling the next update, unless one is in progress.
    pub(super) fn process_next(&mut self, cx: &mut ChildCx<'_, Self>) {
        while self.stage == Stage::Idle
            && let Some(batch) = self.batches.front_mut()
        {
            if let Some(update) = batch.updates.next() {
                return self.process_update(update, cx);
            }
            self.mapping = self.handles.mapping();
            self.report_mapping(cx.vitals());
            self.publish(cx);
            let _ = self.batches.pop_front().map(|batch| batch.reply.send(true));
        }
    }

    fn process_update(&mut self, update: ControllerUpdate, cx: &mut ChildCx<'_, Self>) {
        self.stage = Stage::Redis;
        let (handles, controller) = (self.handles.clone(), self.controller.clone());
        let is_new = self.handles.mappings.lock().is_new(update.mapping_uuid);
        let taking = async move {
            let controller = controller.take(&update, &handles).await;
            if is_new {
                handles.record_begin(update.mapping_uuid, update.finished).await;
            }
            (controller, update)
        };
        cx.spawn(taking, move |ingester, (controller, update), cx| {
            ingester.controller = controller;
            if is_new {
                ingester.start_mapping(&update, cx);
            } else {
                ingester.finish(update.finished.then_some(update.mapping_uuid), cx);
            }
        });
    }

    /// Records a new mapping and requests the restart of `scan`. Once `scan` and its sources have reported
    /// (`scan_started`, `source_ready`, 3 s at most), `mapping_started` publishes the mapping.
    fn start_mapping(&mut self, update: &ControllerUpdate, cx: &mut ChildCx<'_, Self>) {
        let (uuid, finish) = (update.mapping_uuid, update.finished.then_some(update.mapping_uuid));
        let active = update.active(self.handles.streams.iter().map(|stream| &*stream.name));
        let dump = self.handles.dump_path.clone().or_else(|| {
            let prefix = self.controller.parameters.dump_prefix()?;
            Some(format!("{prefix}{}-{uuid}.cbors", self.identity.name))
        });
        let numbers_events = |stream: &usize| self.handles.streams[*stream].numbers_events;
        let shared = update.streams_count() > active.len() || active.iter().any(numbers_events);
        tracing::info!(%uuid, streams = ?active, dump, "a mapping begins");
        let awaited = active.iter().copied().collect();
        let sent = self.handles.sent.get();
        self.record_ended();
        let number =
            self.handles.mappings.update(|mappings| mappings.begin(uuid, (active, shared), dump, sent));
        let before = self.counts(self.scan().as_ref());
        self.handles.history.update(|history| (history.began_ms, history.before) = (now_ms(), before));
        let starting = MappingStart { uuid, number, requests: 0, scan_started: false, awaited, finish };
        self.stage = Stage::Starting(starting);
        self.request_scan(number, cx);
    }

    /// Requests the scan of mapping `number`, and again after a time-out.
    fn request_scan(&mut self, number: u64, cx: &mut ChildCx<'_, Self>) {
        let Some(starting) = self.starting(number).filter(|starting| !starting.scan_started) else {
            return;
        };
        let uuid = starting.uuid;
        starting.requests += 1;
        let requested = if starting.requests > SCAN_REQUESTS_MAX {
            Err(format!("no start within {SCAN_START_TIMEOUT:?}"))
        } else {
            self.restart_scan(uuid).map_err(|error| error.to_string())
        };
        match requested {
            Ok(()) => cx.after(SCAN_START_TIMEOUT, move |ingester, cx| ingester.request_scan(number, cx)),
            Err(reason) => {
                let text = format!("the scan could not be restarted for mapping {uuid}: {reason}");
                cx.fail(Fault::new(text));
            }
        }
    }

    pub(super) fn scan_started(&mut self, started: ScanStarted, cx: &mut ChildCx<'_, Self>) {
        let Some(starting) = self.starting(started.mapping) else { return };
        starting.scan_started = true;
        if starting.awaited.is_empty() {
            return self.mapping_started(cx);
        }
        cx.after(SOURCES_TIMEOUT, move |ingester, cx| {
            if let Some(MappingStart { uuid, .. }) = ingester.starting(started.mapping) {
                tracing::warn!(%uuid, "a source is not connected yet: frames sent before it connects are lost");
                ingester.mapping_started(cx);
            }
        });
    }

    pub(super) fn source_ready(&mut self, ready: SourceReady, cx: &mut ChildCx<'_, Self>) {
        let Some(starting) = self.starting(ready.mapping) else { return };
        starting.awaited.remove(&ready.stream);
        if starting.scan_started && starting.awaited.is_empty() {
            self.mapping_started(cx);
        }
    }

    /// The mapping start `number`, if it is in progress.
    fn starting(&mut self, number: u64) -> Option<&mut MappingStart> {
        match &mut self.stage {
            Stage::Starting(starting) if starting.number == number => Some(starting),
            _ => None,
        }
    }

    fn mapping_started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.metrics.mappings.add(1);
        if let Stage::Starting(starting) = std::mem::replace(&mut self.stage, Stage::Idle) {
            self.finish(starting.finish, cx);
        }
    }

    /// Answers `finished`, if the update has it.
    fn finish(&mut self, finished: Option<Uuid>, cx: &mut ChildCx<'_, Self>) {
        let Some(uuid) = finished else {
            self.stage = Stage::Idle;
            return self.process_next(cx);
        };
        self.stage = Stage::Redis;
        let (handles, controller) = (self.handles.clone(), self.controller.clone());
        cx.spawn(async move { controller.finish(uuid, &handles).await }, |ingester, controller, cx| {
            ingester.controller = controller;
            ingester.stage = Stage::Idle;
            if ingester.handles.mappings.lock().current.finished {
                ingester.record_ended();
            }
            ingester.process_next(cx);
        });
    }
}
