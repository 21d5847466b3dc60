//! Child that collects occurrences and stores them in the outbox.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use orchestrator_observe::{Event, EventKind, metrics, without_root};
use orchestrator_subsystem::{Console, Exchange, HookEvent};
use orchestrator_supervise::{AskError, Factory, Outbox, Reply, StartCx};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::{config::HookEventKind, messages::OutboxRequest, outbox_event::OutboxEvent};

/// Verb of the queue's console that answers with the failed jobs.
const FAILURES: &str = "failures";
/// Number of occurrences that are read together.
const READ_MAX: usize = 1_000;
/// Time between two questions to the queue.
const POLL: Duration = Duration::from_secs(1);
/// Time limit of an answer of the outbox; then the request is repeated.
const OUTBOX_TIMEOUT: Duration = Duration::from_secs(10);

metrics! {
    /// Metrics of the collector.
    struct CollectorMetrics {
        /// Occurrences stored in the outbox of the hooks.
        collected: counter("occurrences"),
        /// Occurrences that were refused because too many came at once.
        refused: counter("occurrences"),
    }
}

/// Parts of the child that outlive its incarnations.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    /// Occurrences that a hook reports.
    kinds: BTreeSet<HookEventKind>,
    requests: Outbox<OutboxRequest>,
    exchange: Exchange,
    /// Number of the last event of the tree whose occurrence is stored.
    seen: Arc<AtomicU64>,
}

/// State of one incarnation.
struct CollectorRun {
    collector: Collector,
    metrics: CollectorMetrics,
    cx: StartCx,
}

/// Reason why nothing could be collected now.
#[derive(Debug, thiserror::Error)]
enum CollectError {
    #[error("the outbox does not answer: {0}")]
    Outbox(#[from] AskError),
    #[error("the queue does not tell its failed jobs: {0}")]
    Queue(String),
}

impl Collector {
    /// Stores occurrences of `kinds` by requests to the outbox.
    pub(crate) fn new(
        kinds: BTreeSet<HookEventKind>,
        requests: Outbox<OutboxRequest>,
        exchange: Exchange,
    ) -> Self {
        Self { kinds, requests, exchange, seen: Arc::default() }
    }

    pub(crate) fn factory(self) -> Factory {
        Factory::task(move |cx: StartCx| {
            let metrics = CollectorMetrics::register(&cx.vitals);
            let run = CollectorRun { collector: self.clone(), metrics, cx };
            async move {
                run.collect_until_stopped().await;
                Ok(())
            }
        })
    }
}

impl CollectorRun {
    async fn collect_until_stopped(self) {
        let stop = self.cx.stop.clone();
        let _ = stop.run_until_cancelled(self.collect()).await;
    }

    async fn collect(&self) {
        let kinds = &self.collector.kinds;
        self.collector.exchange.hook_events.want(kinds.iter().map(|kind| kind.name()));
        if kinds.contains(&HookEventKind::SubsystemGaveUp) {
            tokio::join!(self.collect_reports(), self.collect_given_up());
        } else {
            self.collect_reports().await;
        }
    }

    /// Stores what children and the queue report.
    async fn collect_reports(&self) {
        loop {
            for collected in [self.collect_reported().await, self.collect_failures().await] {
                if let Err(error) = collected {
                    // Occurrences that are not stored are collected again.
                    self.cx.vitals.note(error.to_string());
                }
            }
            let _ = timeout(POLL, self.collector.exchange.hook_events.arrived()).await;
        }
    }

    /// Stores the children that their supervisors give up.
    async fn collect_given_up(&self) {
        let (events, seen) = (self.cx.tree.event_log(), &self.collector.seen);
        loop {
            events.wait_after(seen.load(Relaxed)).await;
            let new = events.since(seen.load(Relaxed));
            let given_up: Vec<_> = new.iter().filter_map(given_up).collect();
            if !given_up.is_empty()
                && let Err(error) = self.store(given_up, None).await
            {
                // They are collected again.
                self.cx.vitals.note(error.to_string());
                sleep(POLL).await;
            } else if let [first, .., last] | [first @ last] = &new[..] {
                let missed = first.seq - 1 - seen.swap(last.seq, Relaxed);
                if missed > 0 {
                    let text = "events of the tree were missed: a given up subsystem may be among them";
                    self.cx.vitals.note(format!("{missed} {text}"));
                }
            }
        }
    }

    /// Stores what children have reported.
    async fn collect_reported(&self) -> Result<(), CollectError> {
        let reported = &self.collector.exchange.hook_events;
        let refused = reported.take_refused();
        if refused > 0 {
            self.metrics.refused.add(refused);
            self.cx.vitals.note(format!("{refused} occurrences were refused, because too many came at once"));
        }
        loop {
            let oldest = reported.oldest(READ_MAX);
            let Some(last) = oldest.last().map(|event| event.number) else { return Ok(()) };
            let kinds = &self.collector.kinds;
            let events = oldest.into_iter().filter_map(|reported| self::reported(kinds, reported));
            self.store(events.collect(), None).await?;
            reported.remove_until(last);
        }
    }

    /// Stores the failed jobs of the queue since the last ones. Before the first hook there are none.
    async fn collect_failures(&self) -> Result<(), CollectError> {
        if !self.collector.kinds.contains(&HookEventKind::QueueFailed) {
            return Ok(());
        }
        let position = self.ask(|reply| OutboxRequest::Position { reply }).await?;
        let mut after = position.unwrap_or(0);
        loop {
            let failures = self.failures(after).await?;
            let Some(last) = failures.last().map(number) else {
                if position.is_none() {
                    self.store(Vec::new(), Some(after)).await?;
                }
                return Ok(());
            };
            after = last;
            if position.is_some() {
                self.store(failures.iter().map(failed).collect(), Some(after)).await?;
            }
        }
    }

    async fn failures(&self, after: i64) -> Result<Vec<Value>, CollectError> {
        let queue = |text: &dyn std::fmt::Display| CollectError::Queue(text.to_string());
        let console = self.collector.exchange.queue_console.path();
        let verb = Console::verb(&self.cx.tree, console, FAILURES).map_err(|error| queue(&error))?;
        let answer = verb.call(json!({ "after": after, "n": READ_MAX })).await;
        match answer.map_err(|error| queue(&error))?.map_err(|error| queue(&error))? {
            Value::Array(failures) => Ok(failures),
            _ => Err(queue(&"its answer is no list")),
        }
    }

    async fn store(&self, events: Vec<OutboxEvent>, position: Option<i64>) -> Result<(), CollectError> {
        let stored = events.len();
        self.ask(|reply| OutboxRequest::Append { events, position, reply }).await?;
        self.metrics.collected.add(stored as u64);
        Ok(())
    }

    async fn ask<R>(&self, request: impl FnOnce(Reply<R>) -> OutboxRequest) -> Result<R, AskError> {
        self.collector.requests.ask(request, OUTBOX_TIMEOUT).await
    }
}

fn new_id() -> String {
    Uuid::new_v4().simple().to_string()
}

fn number(failure: &Value) -> i64 {
    failure["number"].as_i64().unwrap_or(i64::MAX)
}

fn failed(failure: &Value) -> OutboxEvent {
    let finished = failure["finished"].as_u64().unwrap_or_default();
    OutboxEvent::new(new_id(), HookEventKind::QueueFailed, finished.saturating_mul(1_000), failure)
}

/// None if the event is another one.
fn given_up(event: &Event) -> Option<OutboxEvent> {
    let EventKind::GivenUp { reason, delay_ms } = &event.kind else { return None };
    let child = without_root(&event.path);
    let data = json!({ "child": child, "reason": reason, "retry_in_ms": delay_ms });
    Some(OutboxEvent::new(new_id(), HookEventKind::SubsystemGaveUp, event.at_ms, &data))
}

/// None if no hook waits for this kind. The data has the path of the child.
fn reported(kinds: &BTreeSet<HookEventKind>, reported: HookEvent) -> Option<OutboxEvent> {
    let on = kinds.iter().copied().find(|kind| kind.name() == reported.kind)?;
    let mut data = reported.data;
    data["child"] = without_root(&reported.path).into();
    Some(OutboxEvent::new(new_id(), on, reported.at_ms, &data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_reports_is_an_occurrence_with_its_path() {
        let report = |kind| HookEvent {
            number: 1,
            at_ms: 7,
            path: "orchestrator/catalog/lab".to_owned(),
            kind,
            data: json!({ "row": "5" }),
        };
        let kinds = BTreeSet::from([HookEventKind::CatalogDead]);
        assert_eq!(reported(&kinds, report("ingester.gap")), None);
        let event = reported(&kinds, report("catalog.dead")).expect("an occurrence");
        let json: Value = serde_json::from_str(&event.json).expect("JSON");
        let data = json!({ "child": "catalog/lab", "row": "5" });
        assert_eq!(json, json!({ "id": event.id, "on": "catalog.dead", "at_ms": 7, "data": data }));
    }

    #[test]
    fn a_child_that_was_given_up_is_an_occurrence_with_its_reason() {
        let event = |kind| Event { seq: 1, at_ms: 7, path: "orchestrator/queue".to_owned(), kind };
        assert_eq!(given_up(&event(EventKind::Paused)), None);
        let kind = EventKind::GivenUp { reason: "panic: x".to_owned(), delay_ms: 10 };
        let occurrence = given_up(&event(kind)).expect("an occurrence");
        let json: Value = serde_json::from_str(&occurrence.json).expect("JSON");
        let data = json!({ "child": "queue", "reason": "panic: x", "retry_in_ms": 10 });
        assert_eq!(json, json!({ "id": occurrence.id, "on": "subsystem.gave_up", "at_ms": 7, "data": data }));
    }

    #[test]
    fn a_failed_job_is_an_occurrence_with_an_id_of_its_own() {
        let job = json!({ "number": 5, "attr_path": "a", "exit_code": 3, "started": 1, "finished": 2, "fetcher": null });
        let (first, second) = (failed(&job), failed(&job));
        assert_ne!(first.id, second.id);
        let json: Value = serde_json::from_str(&first.json).expect("JSON");
        assert_eq!(json, json!({ "id": first.id, "on": "queue.failed", "at_ms": 2_000, "data": job }));
        assert_eq!(number(&job), 5);
    }
}
