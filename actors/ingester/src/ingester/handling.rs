//! The handling of updates: one after the other, each as far as Redis and the new scan have answered.

use std::time::Duration;

use orchestrator_supervise::{ChildCx, Fault};
use uuid::Uuid;

use super::{
    Ingester,
    stage::{Beginning, Stage},
};
use crate::{
    messages::{ScanStarted, SourceReady},
    updates::{ControllerUpdate, Turn},
};

/// Time-out of a scan's start, after which it is requested again.
const SCAN: Duration = Duration::from_secs(10);
/// Requests for the scan of one mapping.
const REQUESTS: u32 = 3;
/// Longest wait of a mapping for sources that would miss what is sent before they are connected. The controller gives up after
/// 10 s (CONTRACT IO06).
const SOURCES: Duration = Duration::from_secs(3);

impl Ingester {
    /// Takes the next update, unless one is in work.
    pub(super) fn proceed(&mut self, cx: &mut ChildCx<'_, Self>) {
        while self.stage == Stage::Idle
            && let Some(batch) = self.batches.front_mut()
        {
            if let Some(update) = batch.updates.next() {
                return self.take(update, cx);
            }
            self.mapping = self.controller.mapping();
            self.publish(cx);
            let _ = self.batches.pop_front().map(|batch| batch.reply.send(true));
        }
    }

    fn take(&mut self, update: ControllerUpdate, cx: &mut ChildCx<'_, Self>) {
        self.stage = Stage::Redis;
        let (handles, controller) = (self.handles.clone(), self.controller.clone());
        let taking = async move { controller.take(&update, &handles).await };
        cx.spawn(taking, |ingester, (controller, Turn { begin, finish }), cx| {
            ingester.controller = controller;
            match begin {
                Some((uuid, active)) => ingester.begin(uuid, &active, finish, cx),
                None => ingester.finish(finish, cx),
            }
        });
    }

    fn begin(&mut self, uuid: Uuid, active: &[String], finish: Option<Uuid>, cx: &mut ChildCx<'_, Self>) {
        let position = |name: &String| self.handles.streams.iter().position(|stream| *stream.name == **name);
        let active: Vec<usize> = active.iter().filter_map(position).collect();
        let dump = self.handles.dump_path.clone().or_else(|| {
            let prefix = self.controller.parameters.dump_prefix()?;
            Some(format!("{prefix}{}-{uuid}.cbors", self.handles.name))
        });
        tracing::info!(%uuid, streams = ?active, dump, "a mapping begins");
        let awaited = active.iter().copied().collect();
        let number = self.handles.mappings.update(|mappings| mappings.follow(uuid, active, dump));
        let beginning = Beginning { uuid, number, requests: 0, scan_started: false, awaited, finish };
        self.stage = Stage::Beginning(beginning);
        self.request_scan(number, cx);
    }

    /// Asks for the scan of mapping `number`, and once more where it does not start.
    fn request_scan(&mut self, number: u64, cx: &mut ChildCx<'_, Self>) {
        let Some(beginning) = self.beginning(number).filter(|beginning| !beginning.scan_started) else {
            return;
        };
        let uuid = beginning.uuid;
        beginning.requests += 1;
        let given = if beginning.requests > REQUESTS {
            Err(format!("no start within {SCAN:?}"))
        } else {
            self.handles.request_scan(uuid).map_err(|error| error.to_string())
        };
        match given {
            Ok(()) => cx.after(SCAN, move |ingester, cx| ingester.request_scan(number, cx)),
            Err(told) => {
                let text = format!("the scan could not be restarted for mapping {uuid}: {told}");
                cx.fail(Fault::new(text));
            }
        }
    }

    pub(super) fn scan_started(&mut self, started: ScanStarted, cx: &mut ChildCx<'_, Self>) {
        let Some(beginning) = self.beginning(started.mapping) else { return };
        beginning.scan_started = true;
        if beginning.awaited.is_empty() {
            return self.begun(cx);
        }
        cx.after(SOURCES, move |ingester, cx| {
            if let Some(Beginning { uuid, .. }) = ingester.beginning(started.mapping) {
                tracing::warn!(%uuid, "a source is not connected yet: frames that it sends before it is are missed");
                ingester.begun(cx);
            }
        });
    }

    pub(super) fn source_ready(&mut self, ready: SourceReady, cx: &mut ChildCx<'_, Self>) {
        let Some(beginning) = self.beginning(ready.mapping) else { return };
        beginning.awaited.remove(&ready.stream);
        if beginning.scan_started && beginning.awaited.is_empty() {
            self.begun(cx);
        }
    }

    /// The beginning of mapping `number`, if that is waited for.
    fn beginning(&mut self, number: u64) -> Option<&mut Beginning> {
        match &mut self.stage {
            Stage::Beginning(beginning) if beginning.number == number => Some(beginning),
            _ => None,
        }
    }

    fn begun(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.metrics.mappings.add(1);
        if let Stage::Beginning(beginning) = std::mem::replace(&mut self.stage, Stage::Idle) {
            self.finish(beginning.finish, cx);
        }
    }

    /// Answers `finished`, if an update has it.
    fn finish(&mut self, finished: Option<Uuid>, cx: &mut ChildCx<'_, Self>) {
        let Some(uuid) = finished else {
            self.stage = Stage::Idle;
            return self.proceed(cx);
        };
        self.stage = Stage::Redis;
        let (handles, controller) = (self.handles.clone(), self.controller.clone());
        cx.spawn(async move { controller.finish(uuid, &handles).await }, |ingester, controller, cx| {
            ingester.controller = controller;
            ingester.stage = Stage::Idle;
            ingester.proceed(cx);
        });
    }
}
