//! A stream's child: runs its source while a mapping uses it, and keeps what came until its event takes it. A new mapping is a
//! new incarnation, and a run of its own.

use std::{collections::VecDeque, time::Duration};

use futures_util::{FutureExt, StreamExt};
use orchestrator_supervise::{
    DurableView, Factory, Fault, Inbox, InboxSlot, Metric, Recipient, StartCx, metrics,
};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{
    item::Item,
    mapping::{Mapping, Mappings},
    messages::{ItemsIngested, MappingFinished, SourceReady},
    protocol::gaps::{Gaps, Step},
    source::{MakeSource, Place, Source, SourceCounts, SourceCx, SourceError},
    stream_queue::{StreamQueue, StreamQueues},
};

/// How often the gauges are set.
const GAUGES: Duration = Duration::from_millis(500);
/// Interval of the check whether a source that the ingester waits for is connected.
const CONNECTED: Duration = Duration::from_millis(10);
/// Items after which others of the arbiter have their turn: as many small ones as come with one read.
const TURN: usize = 256;
/// Bytes after which they have it, too: a large frame is sent on while it is still in the processor's cache.
const TURN_BYTES: usize = 512 << 10;
/// Gaps are logged at most that often; they are counted always.
const GAP_LOG: Duration = Duration::from_secs(10);

/// One stream as configured.
#[derive(Clone)]
pub(crate) struct StreamSpec {
    pub(crate) streams: StreamQueues,
    pub(crate) position: usize,
    pub(crate) mappings: DurableView<Mappings>,
    pub(crate) ends: InboxSlot<MappingFinished>,
    pub(crate) work: Recipient<ItemsIngested>,
    pub(crate) ingester: Recipient<SourceReady>,
    pub(crate) make: MakeSource,
    pub(crate) place: Place,
    /// Address or file, for the tree.
    pub(crate) endpoint: String,
}

impl StreamSpec {
    /// The child.
    pub(crate) fn factory(self) -> Factory {
        let ends = self.ends.clone();
        let factory = Factory::task(move |cx: StartCx| {
            let spec = self.clone();
            async move { spec.run(&cx).await }
        });
        factory.with_inbox("ends", &ends)
    }

    async fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let mapping = self.mappings.get().current;
        let link = cx.vitals.link("source", self.endpoint.clone());
        link.idle();
        // Also where this mapping does without the stream: what it counts is shown from the start.
        let (counts, source_counts) =
            (StreamMetrics::register(&cx.vitals), SourceCounts::register(&cx.vitals));
        if mapping.active.contains(&self.position) {
            let source = (self.make)(&self.place).map_err(|error| Fault::from_error(&error))?;
            let run = Run {
                stream: self.stream(),
                counts,
                lost: source_counts.lost.clone(),
                gaps: Gaps::default(),
                told: None,
                batch: VecDeque::new(),
                turn_bytes: 0,
                source: Stopped(source),
                finished: false,
                work: &self.work,
                position: self.position,
                cx,
            };
            let source =
                SourceCx { stream: self.stream().name.clone(), link: link.clone(), counts: source_counts };
            self.follow(run, source, &mapping).await;
        }
        link.idle();
        cx.stop.cancelled().await;
        Ok(())
    }

    /// Takes items until the stop.
    async fn follow(&self, mut run: Run<'_>, source: SourceCx, mapping: &Mapping) {
        let (cx, stream, link) = (run.cx, run.stream, source.link.clone());
        let mut items = run.source.0.run(source);
        let (mut gauges, mut look) = (interval(GAUGES), interval(CONNECTED));
        gauges.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut finished = std::pin::pin!(end_of(mapping, self.ends.open()).fuse());
        let mut stop = std::pin::pin!(cx.stop.cancelled());
        let ready = SourceReady { mapping: mapping.number, stream: self.position };
        let (mut told, mut ended) = (false, false);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = &mut finished => {
                    run.finished = true;
                    run.source.0.finish();
                }
                _ = look.tick(), if !told => {
                    // A source that can be slowed misses nothing.
                    told = (!stream.misses || link.is_up()) && self.ingester.tell(ready).is_ok();
                }
                _ = gauges.tick() => run.gauges(),
                mut item = items.next(), if !ended => {
                    // What has come with it is taken without looking at all the rest each time.
                    run.turn_bytes = 0;
                    for left in (0..TURN).rev() {
                        ended = run.take(item);
                        let over = left == 0 || run.turn_bytes >= TURN_BYTES;
                        let more = if ended || over { None } else { items.next().now_or_never() };
                        let Some(next) = more else { break };
                        item = next;
                    }
                    run.keep().await;
                    tokio::task::yield_now().await;
                }
            }
        }
        // What is buffered goes before the source is told that its run is over.
        drop(items);
    }

    fn stream(&self) -> &StreamQueue {
        &self.streams[self.position]
    }
}

/// Waits until all events of `mapping` were ingested.
async fn end_of(mapping: &Mapping, mut ends: Inbox<MappingFinished>) {
    if mapping.finished {
        return;
    }
    while ends.recv().await.is_some_and(|finished| finished.mapping != mapping.number) {}
}

/// Tells Work, which waits for it, that items have come.
fn tell_work(work: &Recipient<ItemsIngested>, stream: usize) {
    // Each stream has one such message on its way at the most, and Work's mailbox room for all of them.
    let _ = work.tell(ItemsIngested { stream });
}

/// Tells the source that its run is over, exactly once, however that came.
struct Stopped(Box<dyn Source>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// One run.
struct Run<'a> {
    stream: &'a StreamQueue,
    counts: StreamMetrics,
    lost: Metric,
    gaps: Gaps,
    told: Option<Instant>,
    /// Taken in this turn, and not yet kept.
    batch: VecDeque<Item>,
    /// Bytes taken in this turn.
    turn_bytes: usize,
    source: Stopped,
    /// Discards what comes from now on (CONTRACT IO13).
    finished: bool,
    work: &'a Recipient<ItemsIngested>,
    position: usize,
    cx: &'a StartCx,
}

impl Run<'_> {
    /// Takes what the source gave. Was it the last?
    fn take(&mut self, given: Option<Result<Item, SourceError>>) -> bool {
        match given {
            Some(Ok(item)) => {
                let bytes = item.bytes();
                self.turn_bytes += bytes;
                self.counts.items.add(1);
                self.counts.bytes.add(bytes as u64);
                self.look_for_gap(&item);
                if !self.finished {
                    self.batch.push_back(item);
                }
                return false;
            }
            Some(Err(error)) => {
                let text = format!("the source has ended until the next mapping: {error}");
                tracing::error!(path = self.cx.vitals.path(), text);
                self.cx.vitals.note(text);
            }
            None => tracing::info!(path = self.cx.vitals.path(), "the source has ended"),
        }
        true
    }

    /// Puts what this turn gave where its events take it from.
    async fn keep(&mut self) {
        let backlog = &self.stream.backlog;
        if self.stream.misses {
            // It cannot be slowed: who sends waits for nobody.
            if backlog.offer(&mut self.batch) {
                tell_work(self.work, self.position);
            }
            self.lost.add(self.batch.len() as u64);
            self.batch.clear();
            return;
        }
        let (work, stream) = (self.work, self.position);
        tokio::select! {
            () = backlog.push(&mut self.batch, || tell_work(work, stream)) => {}
            () = self.cx.stop.cancelled() => {}
        }
    }

    fn look_for_gap(&mut self, item: &Item) {
        let Some(number) = item.number else {
            // Each series has numbers of its own.
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
                format!("frame {number} came again or late")
            }
        };
        self.counts.gaps.add(1);
        if self.told.is_none_or(|told| told.elapsed() >= GAP_LOG) {
            self.told = Some(Instant::now());
            tracing::warn!(path = self.cx.vitals.path(), stream = &*self.stream.name, text);
            self.cx.vitals.note(text);
        }
    }

    fn gauges(&self) {
        let backlog = &self.stream.backlog;
        self.counts.waiting_bytes.set(backlog.bytes() as u64);
        self.counts.waiting_items.set(backlog.items() as u64);
        let oldest = backlog.oldest().unwrap_or_default();
        self.counts.oldest.set(u64::try_from(oldest.as_millis()).unwrap_or(u64::MAX));
    }
}

metrics! {
    /// Metrics of a stream.
    struct StreamMetrics {
        /// Items that a source gave.
        items: counter("items"),
        /// Bytes of a source's items.
        bytes: counter("bytes") as "received",
        /// Places where frame numbers did not follow each other.
        gaps: counter("gaps"),
        /// Frames that are missing by their numbers.
        missing: counter("frames") as "missing_frames",
        /// Frames whose number came again or late.
        backwards: counter("frames") as "backward_frames",
        /// Bytes of a stream that wait for their events.
        waiting_bytes: gauge("bytes") as "waiting",
        /// Items of a stream that wait for their events.
        waiting_items: gauge("items"),
        /// Time that the oldest item has waited for its event.
        oldest: gauge("milliseconds") as "oldest_item",
    }
}
