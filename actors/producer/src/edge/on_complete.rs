//! Child that delivers completed TCNs to a program or a webhook, in order, each until it succeeds (CONTRACT
//! SS07).
//!
//! A failing receiver delays later completions, and never the work on the next TCN.

use orchestrator_edge::delivery::{Courier, Document, Receiver};
use orchestrator_observe::metrics;
use orchestrator_supervise::{ChildSpec, Factory, Inbox, InboxSlot, Outbox, Shutdown, StartCx, inbox};

use crate::{
    completion::{Delivery, WAITING_MAX},
    config::OnCompleteConfig,
};

/// Tree id of the child.
pub(crate) const ON_COMPLETE: &str = "on_complete";

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
    courier: Courier,
    inbox: Inbox<Delivery>,
    metrics: DeliveryMetrics,
    cx: StartCx,
}

/// Returns the requests and the child that delivers them.
///
/// # Errors
/// The address or `ca_file` cannot be used. The text begins with the key.
pub(crate) fn child_spec(config: &OnCompleteConfig) -> Result<(Outbox<Delivery>, ChildSpec), String> {
    let receiver = Receiver::new(&config.receiver())?;
    let (outbox, slot) = inbox(WAITING_MAX);
    let child =
        ChildSpec::worker(ON_COMPLETE, factory(receiver, &slot)).shutdown(Shutdown::After(Courier::DRAIN));
    Ok((outbox, child))
}

fn factory(receiver: Receiver, slot: &InboxSlot<Delivery>) -> Factory {
    let requests = slot.clone();
    let task = Factory::task(move |cx: StartCx| {
        let task = DeliveryTask {
            courier: Courier::new(receiver.clone(), cx.clone()),
            inbox: requests.open(),
            metrics: DeliveryMetrics::register(&cx.vitals),
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
        while let Some(delivery) = self.inbox.next(&self.cx).await {
            if self.cx.stop.is_cancelled() {
                return;
            }
            self.deliver(delivery).await;
        }
    }

    /// Delivers a completion. Returns early on a stop, or once the caller has given it up. If the receiver
    /// refuses its content again and again, the caller sends it once more, behind the others that wait.
    async fn deliver(&self, Delivery { completion, reply }: Delivery) {
        let id = completion.id.to_string();
        let variables = vec![
            ("ORCHESTRATOR_COMPLETION_ID", id.clone()),
            ("ORCHESTRATOR_TCN", completion.tcn.to_string()),
        ];
        let document = Document { id, json: completion.to_json().to_string(), variables };
        let mut refusals = 0;
        while !reply.is_closed() && refusals < Courier::REFUSALS_MAX {
            let Err(failed) = self.courier.attempt(&document).await else {
                self.metrics.delivered.add(1);
                tracing::info!(tcn = completion.tcn, id = %completion.id, "on_complete: delivered");
                // Without the caller, the completion stays recorded and is delivered again.
                let _ = reply.send(());
                return;
            };
            self.metrics.failed.add(1);
            refusals += u32::from(failed.for_content);
            if !self.courier.wait(failed.delay).await {
                return;
            }
        }
    }
}
