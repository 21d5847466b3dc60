//! Child that delivers completed TCNs to a program or a webhook, in order, each until it succeeds (CONTRACT SS07).
//!
//! A failing receiver delays later completions, and never the work on the next TCN.

mod program;
mod webhook;

use std::time::Duration;

use orchestrator_edge::{LinkState, RetryPolicy};
use orchestrator_supervise::{
    ChildSpec, Factory, Inbox, InboxSlot, Outbox, Shutdown, StartCx, inbox, metrics,
};

use self::{program::Program, webhook::Webhook};
use crate::{
    completion::{Completion, Delivery, WAITING_MAX},
    config::OnCompleteConfig,
};

/// Tree id of the child.
pub(crate) const ON_COMPLETE: &str = "on_complete";

/// Delays between attempts (CONTRACT SS08): longer than those of a server, since a program that fails usually needs somebody to
/// repair it.
const RETRY: RetryPolicy = RetryPolicy::exception(Duration::from_secs(1), Duration::from_secs(60));
/// Time for which a stop waits for the attempt in progress. A delivery without a record is repeated with the same id.
const DRAIN: Duration = Duration::from_secs(3);

/// Receiver of completed TCNs.
#[derive(Debug, Clone)]
enum Receiver {
    Program(Program),
    Webhook(Box<Webhook>),
}

metrics! {
    /// Metrics of the deliveries.
    struct DeliveryMetrics {
        /// Completed TCNs that the program or the webhook has accepted.
        delivered: counter("completions"),
        /// Attempts that failed; they are repeated.
        failed: counter("deliveries"),
    }
}

struct DeliveryTask {
    receiver: Receiver,
    inbox: Inbox<Delivery>,
    metrics: DeliveryMetrics,
    link: LinkState,
    cx: StartCx,
}

/// Returns the requests and the child that delivers them.
///
/// # Errors
/// The address or `ca_file` cannot be used. The text begins with the key.
pub(crate) fn child_spec(config: &OnCompleteConfig) -> Result<(Outbox<Delivery>, ChildSpec), String> {
    let receiver = Receiver::new(config)?;
    let (outbox, slot) = inbox(WAITING_MAX);
    let child = ChildSpec::worker(ON_COMPLETE, factory(receiver, &slot)).shutdown(Shutdown::After(DRAIN));
    Ok((outbox, child))
}

fn factory(receiver: Receiver, slot: &InboxSlot<Delivery>) -> Factory {
    let requests = slot.clone();
    let task = Factory::task(move |cx: StartCx| {
        let task = DeliveryTask {
            receiver: receiver.clone(),
            inbox: requests.open(),
            metrics: DeliveryMetrics::register(&cx.vitals),
            link: LinkState::new(&cx, receiver.kind(), receiver.name(), RETRY),
            cx,
        };
        async move {
            task.run().await;
            Ok(())
        }
    });
    task.with_inbox("completions", slot)
}

impl DeliveryTask {
    async fn run(mut self) {
        self.link.idle();
        while let Some(delivery) = self.inbox.next(&self.cx).await {
            if self.cx.stop.is_cancelled() {
                return;
            }
            self.deliver(delivery).await;
        }
    }

    /// Delivers a completion. Returns early on a stop, or once the caller has given it up.
    async fn deliver(&self, Delivery { completion, reply }: Delivery) {
        while !reply.is_closed() {
            let attempt = {
                let _in_progress = self.cx.vitals.begin_work("deliver");
                // A program may run for long before it ends.
                let _request = matches!(self.receiver, Receiver::Webhook(_)).then(|| self.link.request());
                self.receiver.deliver(&completion).await
            };
            let Err(reason) = attempt else {
                self.link.succeeded();
                self.metrics.delivered.add(1);
                tracing::info!(tcn = completion.tcn, id = %completion.id, "on_complete: delivered");
                // Without the caller, the completion stays recorded and is delivered again.
                let _ = reply.send(());
                return;
            };
            self.metrics.failed.add(1);
            let delay = self.link.failed(&reason);
            tracing::warn!(tcn = completion.tcn, id = %completion.id, ?delay, "on_complete: {reason}");
            if !self.link.wait(delay).await {
                return;
            }
        }
    }
}

impl Receiver {
    fn new(config: &OnCompleteConfig) -> Result<Self, String> {
        let timeout = Duration::from_secs(config.timeout_secs.into());
        match &config.url {
            Some(url) => {
                let webhook =
                    Webhook::new(url, config.ca_file.as_deref(), config.headers_file.clone(), timeout);
                webhook
                    .map(|webhook| Self::Webhook(Box::new(webhook)))
                    .map_err(|reason| format!("producer.on_complete.{reason}"))
            }
            None => Ok(Self::Program(Program { argv: config.argv.clone(), timeout })),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Program(_) => "program",
            Self::Webhook(_) => "webhook",
        }
    }

    /// Returns the name for the link, without arguments or a query, which may hold secrets.
    fn name(&self) -> String {
        match self {
            Self::Program(program) => program.name().to_owned(),
            Self::Webhook(webhook) => webhook.name(),
        }
    }

    /// Delivers a completion once.
    ///
    /// # Errors
    /// The receiver did not accept it, or its answer is unknown; the text says what to do.
    async fn deliver(&self, completion: &Completion) -> Result<(), String> {
        match self {
            Self::Program(program) => program.deliver(completion).await,
            Self::Webhook(webhook) => webhook.deliver(completion).await,
        }
    }
}
