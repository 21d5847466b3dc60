//! Child of a hook: delivers its occurrences one by one, the oldest first, each until the receiver accepts it.

use std::time::Duration;

use orchestrator_edge::delivery::{Courier, Document, Receiver};
use orchestrator_supervise::{AskError, Factory, Outbox, Reply, StartCx, metrics};
use tokio::sync::watch;

use crate::messages::{OutboxRequest, Waiting};

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
    }
}

/// Parts of the child that outlive its incarnations.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryTask {
    pub(crate) hook: String,
    pub(crate) receiver: Receiver,
    pub(crate) requests: Outbox<OutboxRequest>,
    /// Number of occurrences that wait.
    pub(crate) waiting: watch::Receiver<u64>,
}

struct Incarnation {
    task: DeliveryTask,
    courier: Courier,
    metrics: HookMetrics,
    cx: StartCx,
}

impl DeliveryTask {
    /// Returns the factory of the child.
    pub(crate) fn factory(self) -> Factory {
        Factory::task(move |cx: StartCx| {
            let incarnation = Incarnation {
                task: self.clone(),
                courier: Courier::new(self.receiver.clone(), cx.clone()),
                metrics: HookMetrics::register(&cx.vitals),
                cx,
            };
            async move {
                incarnation.run().await;
                Ok(())
            }
        })
    }
}

impl Incarnation {
    async fn run(mut self) {
        let stop = self.cx.stop.clone();
        while !stop.is_cancelled() {
            if self.report_backlog() == 0 {
                // The outbox never drops its end, which the factory of its child owns.
                let _ = stop.run_until_cancelled(self.task.waiting.changed()).await;
                continue;
            }
            let hook = &self.task.hook;
            let oldest = self.ask(|reply| OutboxRequest::Oldest { hook: hook.clone(), reply });
            match stop.run_until_cancelled(oldest).await {
                Some(Ok(Some(waiting))) => self.deliver(waiting).await,
                // The number follows soon.
                Some(Ok(None)) => {
                    let _ = stop.run_until_cancelled(self.task.waiting.changed()).await;
                }
                Some(Err(_)) => {
                    let _ = self.courier.wait(Duration::from_secs(1)).await;
                }
                None => {}
            }
        }
    }

    /// Reports and returns the number of occurrences that wait.
    fn report_backlog(&mut self) -> u64 {
        let waiting = *self.task.waiting.borrow_and_update();
        self.metrics.backlog.set(waiting);
        waiting
    }

    /// Delivers an occurrence. Returns early on a stop.
    async fn deliver(&mut self, Waiting { number, id, json }: Waiting) {
        let variables = vec![("ORCHESTRATOR_OCCURRENCE_ID", id.clone())];
        let document = Document { id, json, variables };
        while let Err(delay) = self.courier.attempt(&document).await {
            self.metrics.failed.add(1);
            if !self.wait(delay).await {
                return;
            }
        }
        self.metrics.delivered.add(1);
        tracing::info!(hook = self.task.hook, id = document.id, "delivered");
        let hook = &self.task.hook;
        // Without the removal, the occurrence would be delivered again.
        while self.ask(|reply| OutboxRequest::Remove { hook: hook.clone(), number, reply }).await.is_err() {
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
                _ = self.task.waiting.changed() => {}
            }
        }
    }

    async fn ask<R>(&self, request: impl FnOnce(Reply<R>) -> OutboxRequest) -> Result<R, AskError> {
        self.task.requests.ask(request, OUTBOX_TIMEOUT).await
    }
}
