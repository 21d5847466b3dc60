//! Child that owns the workers' port and all connections. Dropping its future ends them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use orchestrator_edge::{ConnectionEvent, ConnectionSlots};
use orchestrator_observe::{Metric, metrics};
use orchestrator_supervise::{Factory, Fault, Recipient, StartCx, Vitals};
use tokio::{
    net::TcpListener,
    task::yield_now,
    time::{MissedTickBehavior, interval},
};

use super::{
    Egress,
    connection::{CloseReason, Shared, serve},
    eviction::{connection_limit, eviction_candidate},
    forwarding::ForwardingTimes,
    listener::listen,
    metrics_exporter::MetricsExporter,
};
use crate::messages::WorkerPinged;

/// Interval between two updates of the metrics.
const METRICS_INTERVAL: Duration = Duration::from_millis(500);

/// Factory of the child that listens at `listen_at` and serves workers from `egress`. Valid pings
/// go to `pings`; while that is full they are dropped. The child fails if the port is in use. It
/// stops at once; queues stay for the next incarnation.
pub(crate) fn factory(listen_at: SocketAddr, egress: Egress, pings: Recipient<WorkerPinged>) -> Factory {
    Factory::task(move |cx: StartCx| {
        let (egress, pings) = (egress.clone(), pings.clone());
        async move {
            let link = cx.vitals.link("worker port", listen_at.to_string());
            let listener = listen(listen_at).map_err(|error| Fault::from_error(&error))?;
            let forwarding = ForwardingTimes::register(&cx.vitals, egress.inner.created);
            {
                let mut peers = egress.lock();
                #[cfg(test)]
                peers.local_addr.replace(listener.local_addr().expect("an address"));
                peers.forwarding = Some(forwarding);
            }
            link.up();
            let server = WorkerServer::new(listener, egress, pings, &cx.vitals);
            // The connections yield by themselves; tokio's budget would only wake this task
            // needlessly.
            tokio::select! {
                biased;
                () = cx.stop.cancelled() => {}
                () = tokio::task::unconstrained(server.run()) => {}
            }
            Ok(())
        }
    })
}

metrics! {
    /// Metrics of the workers' port.
    struct PortMetrics {
        /// Open connections at the workers' port.
        connections: gauge("connections"),
        /// Connections closed to free a slot for another one.
        evicted: counter("") as "connections_evicted",
        /// Connections at the workers' port whose handshake failed.
        refused: counter("") as "handshakes_refused",
        /// Ignored messages of workers: all except pings.
        bad_pings: counter(""),
    }
}

struct WorkerServer {
    listener: TcpListener,
    slots: ConnectionSlots<SocketAddr, CloseReason>,
    shared: Arc<Shared>,
    refused: Metric,
    vitals: Arc<Vitals>,
}

impl WorkerServer {
    fn new(
        listener: TcpListener,
        egress: Egress,
        pings: Recipient<WorkerPinged>,
        vitals: &Arc<Vitals>,
    ) -> Self {
        let connections_max = egress.inner.limits.connections_max.unwrap_or_else(connection_limit);
        let PortMetrics { connections, evicted, refused, bad_pings } = PortMetrics::register(vitals);
        let slots = ConnectionSlots::new(connections_max, eviction_candidate, connections, evicted);
        let shared = Arc::new(Shared { egress, pings, bad_pings });
        Self { listener, slots, shared, refused, vitals: vitals.clone() }
    }

    async fn run(mut self) {
        let mut metrics_exporter = MetricsExporter::new(&self.shared.egress, &self.vitals);
        let mut metrics_tick = interval(METRICS_INTERVAL);
        metrics_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = metrics_tick.tick() => metrics_exporter.refresh(&self.shared.egress),
                event = self.slots.next_event(async || self.listener.accept().await, true) => match event {
                    ConnectionEvent::Accepted((stream, peer)) => {
                        let shared = self.shared.clone();
                        self.slots.serve(peer, |_, slot| async move { serve(stream, &slot, &shared).await });
                        // Lets other tasks run however many workers connect.
                        yield_now().await;
                    }
                    ConnectionEvent::Ended { peer, end, .. } => self.log_end(peer, end),
                }
            }
        }
    }

    fn log_end(&self, peer: SocketAddr, end: Option<CloseReason>) {
        match end {
            Some(CloseReason::Refused(error)) => {
                self.refused.add(1);
                tracing::debug!(%peer, "worker connection refused: {error}");
            }
            Some(end) => tracing::info!(%peer, "worker connection ended: {end}"),
            None => tracing::error!(%peer, "worker connection panicked"),
        }
    }
}
