//! Child of a stream: runs its source while a mapping uses it, and queues the items for Work. Each
//! mapping is a new incarnation with its own run.

use std::{collections::VecDeque, time::Duration};

use futures_util::{FutureExt, StreamExt};
use orchestrator_exchange::HookEvents;
use orchestrator_ingester_protocols::gaps::{Gaps, Step};
use orchestrator_observe::{ExpectedInput, Metric, metrics, millis};
use orchestrator_subsystem::{DETAIL, Period};
use orchestrator_supervise::{DurableView, Factory, Fault, Inbox, InboxSlot, Recipient, StartCx};
use orchestrator_text::{sanitize, sanitize_to};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{
    item::Item,
    mapping::{Mapping, Mappings},
    messages::{ItemsIngested, MappingFinished, SourceReady},
    source::{MakeSource, Source, SourceCounts, SourceCx, SourceError, SourceOptions},
    stream_queue::{StreamQueue, StreamQueues},
};

/// Interval between two updates of the gauges.
const GAUGE_INTERVAL: Duration = Duration::from_millis(500);
/// Interval between two checks of a source's connection, until it is up.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longest wait of a mapping for a source without backpressure that neither connects nor refuses (CONTRACT
/// IO06).
const CONNECT_WAIT: Duration = Duration::from_millis(500);
/// Items after which the child yields, about as many small ones as arrive with one read.
const YIELD_ITEMS: usize = 256;
/// Bytes after which the child yields, so that a large frame is sent while it is in the processor's
/// cache.
const YIELD_BYTES: usize = 512 << 10;
/// Bytes of a source's header in a debug line.
const HEADER_SHOWN: usize = 200;
/// Log line on a mapping that does not wait for a source.
const NOT_CONNECTED: &str = "the source is not connected yet: frames sent before it connects are lost";
/// Shortest time between two log lines on gaps. All gaps are counted.
const GAP_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Parameters of one stream's child.
#[derive(Clone)]
pub(crate) struct StreamSpec {
    pub(crate) streams: StreamQueues,
    pub(crate) position: usize,
    pub(crate) mappings: DurableView<Mappings>,
    pub(crate) finished: InboxSlot<MappingFinished>,
    pub(crate) work: Recipient<ItemsIngested>,
    pub(crate) ingester: Recipient<SourceReady>,
    pub(crate) make: MakeSource,
    pub(crate) options: SourceOptions,
    /// Address or file, shown in the tree.
    pub(crate) endpoint: String,
    /// Time without items after which the input is late.
    pub(crate) expect_every: Option<Period>,
    pub(crate) hook_events: HookEvents,
}

impl StreamSpec {
    pub(crate) fn factory(self) -> Factory {
        let finished = self.finished.clone();
        let factory = Factory::task(move |cx: StartCx| {
            let spec = self.clone();
            async move { spec.run(&cx).await }
        });
        factory.with_inbox("finished", &finished)
    }

    async fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let mapping = self.mappings.get().current;
        let link = cx.vitals.link("source", self.endpoint.clone());
        link.idle();
        // Registers the metrics also if this mapping does not use the stream.
        let (counts, source_counts) =
            (SourceMetrics::register(&cx.vitals), SourceCounts::register(&cx.vitals));
        let expected = self.expect_every.map(|every| {
            let help = format!("check that {} sends", self.endpoint);
            cx.vitals.expect_input(&self.stream().name, every.duration(), &help)
        });
        if mapping.active.contains(&self.position) {
            let source = (self.make)(&self.options).map_err(|error| Fault::from_error(&error))?;
            let run = StreamRun {
                stream: self.stream(),
                counts,
                lost: source_counts.lost.clone(),
                gaps: Gaps::default(),
                gap_logged_at: None,
                batch: VecDeque::new(),
                turn_bytes: 0,
                has_items: false,
                expected,
                source: StopGuard(source),
                finished: false,
                work: &self.work,
                position: self.position,
                hook_events: &self.hook_events,
                cx,
            };
            let source = SourceCx {
                stream: self.stream().name.clone(),
                mapping: mapping.number,
                link: link.clone(),
                counts: source_counts,
            };
            self.follow(run, source, &mapping).await;
        }
        link.idle();
        cx.stop.cancelled().await;
        Ok(())
    }

    /// Queues items until the stop.
    async fn follow(&self, mut run: StreamRun<'_>, source: SourceCx, mapping: &Mapping) {
        let (cx, link) = (run.cx, source.link.clone());
        let connects_first = run.source.0.connects_first();
        let mut items = run.source.0.run(source);
        let (mut gauge_tick, mut poll) = (interval(GAUGE_INTERVAL), interval(READY_POLL_INTERVAL));
        gauge_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut finished = std::pin::pin!(mapping_finished(mapping, self.finished.open()).fuse());
        let mut stop = std::pin::pin!(cx.stop.cancelled());
        let ready = SourceReady { mapping: mapping.number, stream: self.position };
        let (mut ready_sent, mut ended) = (false, false);
        let wait_ends = self.stream().lossy.then(|| Instant::now() + CONNECT_WAIT);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = &mut finished => run.finish(),
                _ = poll.tick(), if !ready_sent => {
                    // Other sources lose no frame before they are connected. The controller does not wait for
                    // one that is away.
                    let is_away = ended || link.is_down() || wait_ends.is_some_and(|end| Instant::now() >= end);
                    ready_sent = (!connects_first || link.is_up() || is_away) && self.ingester.tell(ready).is_ok();
                    if ready_sent && connects_first && !link.is_up() {
                        tracing::warn!(path = cx.vitals.path(), "{NOT_CONNECTED}");
                    }
                }
                _ = gauge_tick.tick() => run.update_gauges(),
                mut item = items.next(), if !ended => {
                    // Takes all items that are ready, without polling the other branches for each.
                    run.turn_bytes = 0;
                    for left in (0..YIELD_ITEMS).rev() {
                        ended = run.take(item);
                        let limit_reached = left == 0 || run.turn_bytes >= YIELD_BYTES;
                        let more = if ended || limit_reached { None } else { items.next().now_or_never() };
                        let Some(next) = more else { break };
                        item = next;
                    }
                    run.note_arrival();
                    tokio::select! {
                        biased;
                        () = run.enqueue() => {}
                        // Work takes no item of a finished mapping, so a full backlog stays full.
                        () = &mut finished => run.finish(),
                    }
                    tokio::task::yield_now().await;
                }
            }
        }
        // Buffered items must be dropped before the source's `stop`.
        drop(items);
    }

    fn stream(&self) -> &StreamQueue {
        &self.streams[self.position]
    }
}

/// Waits until all events of `mapping` were ingested.
async fn mapping_finished(mapping: &Mapping, mut inbox: Inbox<MappingFinished>) {
    if mapping.finished {
        return;
    }
    while inbox.recv().await.is_some_and(|finished| finished.mapping != mapping.number) {}
}

/// Notifies Work that items have arrived.
fn notify_work(work: &Recipient<ItemsIngested>, stream: usize) {
    // Work's mailbox has room for one such message of each stream.
    let _ = work.tell(ItemsIngested { stream });
}

/// Calls the source's `stop` exactly once.
struct StopGuard(Box<dyn Source>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// One run.
struct StreamRun<'a> {
    stream: &'a StreamQueue,
    counts: SourceMetrics,
    lost: Metric,
    gaps: Gaps,
    gap_logged_at: Option<Instant>,
    /// Items of this turn that are not queued yet.
    batch: VecDeque<Item>,
    /// Bytes received in this turn.
    turn_bytes: usize,
    /// An item was received in this turn.
    has_items: bool,
    expected: Option<ExpectedInput>,
    source: StopGuard,
    /// Further items are dropped (CONTRACT IO13).
    finished: bool,
    work: &'a Recipient<ItemsIngested>,
    position: usize,
    hook_events: &'a HookEvents,
    cx: &'a StartCx,
}

impl StreamRun<'_> {
    /// Handles an item or the end of the source; true at the end.
    fn take(&mut self, given: Option<Result<Item, SourceError>>) -> bool {
        match given {
            Some(Ok(item)) => {
                let bytes = item.bytes();
                self.turn_bytes += bytes;
                self.has_items = true;
                self.counts.items.add(1);
                self.counts.bytes.add(bytes as u64);
                self.check_gap(&item);
                if !self.finished {
                    self.batch.push_back(item);
                }
                return false;
            }
            Some(Err(error)) => {
                let text = format!("the source failed and restarts with the next mapping: {error}");
                tracing::error!(path = self.cx.vitals.path(), text);
                self.cx.vitals.note(text);
            }
            None => tracing::info!(path = self.cx.vitals.path(), "the source has ended"),
        }
        true
    }

    /// Records that items have arrived in this turn, if they are expected.
    fn note_arrival(&mut self) {
        if std::mem::take(&mut self.has_items) {
            self.expected.iter().for_each(ExpectedInput::arrived);
        }
    }

    /// Drops all further items and tells the source that the mapping has finished.
    fn finish(&mut self) {
        self.finished = true;
        self.batch.clear();
        self.source.0.finish();
    }

    /// Moves the items of this turn to the backlog.
    async fn enqueue(&mut self) {
        let backlog = &self.stream.backlog;
        if self.stream.lossy {
            // Without backpressure the sender does not wait: items without room are lost.
            if backlog.offer(&mut self.batch) {
                notify_work(self.work, self.position);
            }
            self.lost.add(self.batch.len() as u64);
            self.batch.clear();
            return;
        }
        let (work, stream) = (self.work, self.position);
        tokio::select! {
            () = backlog.push(&mut self.batch, || notify_work(work, stream)) => {}
            () = self.cx.stop.cancelled() => {}
        }
    }

    fn check_gap(&mut self, item: &Item) {
        if self.stream.numbers_events {
            // The numbers in between are those of other ingesters.
            return;
        }
        let Some(number) = item.number else {
            let (stream, typ) = (&*self.stream.name, sanitize(&*item.typ));
            let header = item
                .frames
                .first()
                .map(|frame| sanitize_to(&frame[..frame.len().min(HEADER_SHOWN)], HEADER_SHOWN));
            let path = self.cx.vitals.path();
            tracing::debug!(target: DETAIL, path, stream, typ, header, "a series of the source starts or ends");
            // Each series has its own numbers.
            self.gaps = Gaps::default();
            return;
        };
        let text = match self.gaps.step(number) {
            Step::Ok => return,
            Step::Gap { missing } => {
                self.counts.missing.add(missing);
                format!("{missing} frames are missing before frame {number}")
            }
            Step::Repeat | Step::Backwards => {
                self.counts.backwards.add(1);
                format!("frame {number} was repeated or late")
            }
        };
        self.counts.gaps.add(1);
        if self.gap_logged_at.is_none_or(|at| at.elapsed() >= GAP_LOG_INTERVAL) {
            self.gap_logged_at = Some(Instant::now());
            tracing::warn!(path = self.cx.vitals.path(), stream = &*self.stream.name, text);
            self.hook_events.report(self.cx.vitals.path(), "ingester.gap", || {
                let counts = &self.counts;
                json!({
                    "stream": sanitize(&*self.stream.name), "text": text, "gaps": counts.gaps.get(),
                    "missing_frames": counts.missing.get(), "backward_frames": counts.backwards.get(),
                })
            });
            self.cx.vitals.note(text);
        }
    }

    fn update_gauges(&self) {
        let backlog = &self.stream.backlog;
        let (buffered, buffered_max) = self.source.0.buffered();
        self.counts.waiting_bytes.set((backlog.bytes() + buffered) as u64);
        self.counts.waiting_bytes.set_bound((backlog.bytes_max() + buffered_max) as u64);
        self.counts.waiting_items.set(backlog.items() as u64);
        let oldest = backlog.oldest().unwrap_or_default();
        self.counts.oldest.set(millis(oldest));
    }
}

metrics! {
    /// Metrics of a stream.
    struct SourceMetrics {
        /// Items received from a source: frames, and marks of a start or an end.
        items: counter("items"),
        /// Bytes of items received from a source.
        bytes: counter("bytes") as "received",
        /// Gaps in the frame numbers.
        gaps: counter("gaps"),
        /// Frames missing according to the sequence of frame numbers.
        missing: counter("frames") as "missing_frames",
        /// Frames whose number was repeated or out of order.
        backwards: counter("frames") as "backward_frames",
        /// Bytes of received items whose events are not yet assigned to workers.
        waiting_bytes: gauge("bytes") as "waiting",
        /// Received items whose events are not yet assigned to workers.
        waiting_items: gauge("items"),
        /// Waiting time of the oldest item of a stream.
        oldest: gauge("milliseconds") as "oldest_item",
    }
}
