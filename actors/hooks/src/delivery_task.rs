//! Child of a hook: delivers its occurrences one by one, the oldest first, each until the receiver accepts
//! it, or has refused it five times for its content.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use orchestrator_edge::delivery::{Courier, Document, Receiver};
use orchestrator_observe::metrics;
use orchestrator_supervise::{AskError, Factory, Outbox, Reply, StartCx};
use tokio::sync::watch;

use crate::messages::{Kept, OutboxRequest, Waiting};

/// Time limit of an answer of the outbox; then the request is repeated.
const OUTBOX_TIMEOUT: Duration = Duration::from_secs(10);

metrics! {
    /// Metrics of a hook.
    struct HookMetrics {
        /// Occurrences that the receiver of the hook has accepted.
        delivered: counter("occurrences"),
        /// Attempts of the hook that failed; they are repeated.
        failed: counter("deliveries"),
        /// Occurrences that wait for the receiver of the hook.
        backlog: gauge("occurrences"),
        /// Occurrences that the receiver of the hook refused for their content; they are kept.
        put_aside: gauge("occurrences"),
    }
}

/// Parts of the child that outlive its incarnations.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryTask {
    hook: String,
    receiver: Receiver,
    requests: Outbox<OutboxRequest>,
    kept: watch::Receiver<Kept>,
    /// Restarts by an operator after which those that were put aside have been sent again.
    restarts: Arc<AtomicU64>,
}

/// State of one incarnation.
struct DeliveryRun {
    task: DeliveryTask,
    courier: Courier,
    metrics: HookMetrics,
    cx: StartCx,
}

impl DeliveryTask {
    /// Creates the task of the hook `hook`. `kept` follows the outbox.
    pub(crate) fn new(
        hook: String,
        receiver: Receiver,
        requests: Outbox<OutboxRequest>,
        kept: watch::Receiver<Kept>,
    ) -> Self {
        Self { hook, receiver, requests, kept, restarts: Arc::default() }
    }

    pub(crate) fn factory(self) -> Factory {
        Factory::task(move |cx: StartCx| {
            let run = DeliveryRun {
                task: self.clone(),
                courier: Courier::new(self.receiver.clone(), cx.clone()),
                metrics: HookMetrics::register(&cx.vitals),
                cx,
            };
            async move {
                run.deliver_until_stopped().await;
                Ok(())
            }
        })
    }
}

impl DeliveryRun {
    async fn deliver_until_stopped(mut self) {
        let stop = self.cx.stop.clone();
        let _ = stop.run_until_cancelled(self.send_again()).await;
        while !stop.is_cancelled() {
            if self.report_backlog() == 0 {
                // The outbox never drops its end, which the factory of its child owns.
                let _ = stop.run_until_cancelled(self.task.kept.changed()).await;
                continue;
            }
            let hook = &self.task.hook;
            let oldest = self.ask(|reply| OutboxRequest::Oldest { hook: hook.clone(), reply });
            match stop.run_until_cancelled(oldest).await {
                Some(Ok(Some(waiting))) => self.deliver(waiting).await,
                // The number follows soon.
                Some(Ok(None)) => {
                    let _ = stop.run_until_cancelled(self.task.kept.changed()).await;
                }
                Some(Err(_)) => {
                    let _ = self.courier.wait(Duration::from_secs(1)).await;
                }
                None => {}
            }
        }
    }

    /// Lets occurrences that were put aside wait again if an operator has restarted the child.
    async fn send_again(&self) {
        let (hook, restarts) = (&self.task.hook, self.cx.child.planned_restarts());
        while self.task.restarts.load(Relaxed) < restarts {
            match self.ask(|reply| OutboxRequest::SendAgain { hook: hook.clone(), reply }).await {
                Ok(()) => self.task.restarts.store(restarts, Relaxed),
                Err(_) => drop(self.courier.wait(Duration::from_secs(1)).await),
            }
        }
    }

    /// Reports what is in the outbox, and returns the number of occurrences that wait.
    fn report_backlog(&mut self) -> u64 {
        let kept = self.task.kept.borrow_and_update().clone();
        self.metrics.backlog.set(kept.waiting);
        self.metrics.put_aside.set(kept.put_aside);
        if kept.put_aside == 0 {
            self.cx.vitals.clear_blocker();
        } else {
            let count = kept.put_aside;
            let text = format!("occurrences put aside, since the receiver refuses their content: {count}");
            let evidence: Vec<_> = kept.last.iter().map(|(id, reason)| format!("{id}: {reason}")).collect();
            let help = format!("correct the receiver, then orchestrator restart hooks/{}", self.task.hook);
            self.cx.vitals.set_blocker_with("put_aside", text, &evidence, help);
        }
        kept.waiting
    }

    /// Delivers an occurrence. Returns early on a stop.
    async fn deliver(&mut self, Waiting { number, id, json }: Waiting) {
        let variables = vec![("ORCHESTRATOR_OCCURRENCE_ID", id.clone())];
        let document = Document { id, json, variables };
        let mut refusals = 0;
        while let Err(failed) = self.courier.attempt(&document).await {
            self.metrics.failed.add(1);
            refusals += u32::from(failed.for_content);
            if refusals == Courier::REFUSALS_MAX {
                return self.put_aside(number, &document.id, &failed.reason).await;
            }
            if !self.wait(failed.delay).await {
                return;
            }
        }
        self.metrics.delivered.add(1);
        tracing::info!(hook = self.task.hook, id = document.id, "delivered");
        let hook = &self.task.hook;
        // Without the removal, the occurrence would be delivered again.
        self.ask_until_answered(|reply| OutboxRequest::Remove { hook: hook.clone(), number, reply }).await;
    }

    /// Keeps an occurrence that the receiver refuses, so that later ones go on.
    async fn put_aside(&self, number: i64, id: &str, reason: &str) {
        let hook = &self.task.hook;
        let times = Courier::REFUSALS_MAX;
        tracing::warn!(hook, id, times, "put aside, since the receiver refuses its content: {reason}");
        let reason = reason.to_owned();
        self.ask_until_answered(|reply| OutboxRequest::PutAside {
            hook: hook.clone(),
            number,
            reason: reason.clone(),
            reply,
        })
        .await;
        self.courier.skip();
    }

    /// Repeats a request until the outbox has answered, or a stop.
    async fn ask_until_answered(&self, request: impl Fn(Reply<()>) -> OutboxRequest) {
        while self.ask(&request).await.is_err() {
            if !self.courier.wait(Duration::from_secs(1)).await {
                return;
            }
        }
    }

    /// Waits for `delay` and reports the backlog meanwhile. Returns false on a stop.
    async fn wait(&mut self, delay: Duration) -> bool {
        let end = tokio::time::Instant::now() + delay;
        loop {
            self.report_backlog();
            tokio::select! {
                biased;
                () = self.cx.stop.cancelled() => return false,
                () = tokio::time::sleep_until(end) => return true,
                _ = self.task.kept.changed() => {}
            }
        }
    }

    async fn ask<R>(&self, request: impl FnOnce(Reply<R>) -> OutboxRequest) -> Result<R, AskError> {
        self.task.requests.ask(request, OUTBOX_TIMEOUT).await
    }
}
