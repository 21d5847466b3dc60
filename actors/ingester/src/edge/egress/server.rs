//! The child that owns the port and every connection: dropping its one future ends them all.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use orchestrator_edge::{ConnectionEvent, ConnectionSlots};
use orchestrator_supervise::{Factory, Fault, Metric, Recipient, StartCx, Vitals, metrics};
use tokio::{
    net::TcpListener,
    task::yield_now,
    time::{MissedTickBehavior, interval},
};

use super::{
    Egress,
    connection::{End, Shared, serve},
    display::Display,
    listener::listen,
    standing::{connection_limit, least},
};
use crate::messages::WorkerPinged;

/// How often sums over all peers are shown anew.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// The child that listens for workers at `listen_at` and serves them from `egress`. Good pings go to `pings`; where that is full they are
/// dropped. It fails if the port is taken. Stopped, it ends at once, as the original does: queues stay for the next start.
pub fn factory(listen_at: SocketAddr, egress: Egress, pings: Recipient<WorkerPinged>) -> Factory {
    Factory::task(move |cx: StartCx| {
        let (egress, pings) = (egress.clone(), pings.clone());
        async move {
            let link = cx.vitals.link("worker port", listen_at.to_string());
            let listener = listen(listen_at).map_err(|error| Fault::from_error(&error))?;
            egress.lock().listening_at = listener.local_addr().ok();
            link.up();
            let server = WorkerServer::new(listener, egress, pings, &cx.vitals);
            // The children of this future have a fair order of their own; tokio's budget would only wake it up in vain.
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
        /// Connections at the workers' port.
        connections: gauge("connections"),
        /// Connections closed to make room for others.
        evicted: counter("") as "connections_evicted",
        /// Connections at the workers' port that did not speak its protocol.
        refused: counter("") as "handshakes_refused",
        /// Messages of workers that are no pings, passed over.
        bad_pings: counter(""),
    }
}

struct WorkerServer {
    listener: TcpListener,
    slots: ConnectionSlots<SocketAddr, End>,
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
        let slots = ConnectionSlots::new(connections_max, least, connections, evicted);
        let shared = Arc::new(Shared { egress, pings, bad_pings });
        Self { listener, slots, shared, refused, vitals: vitals.clone() }
    }

    async fn run(mut self) {
        let mut display = Display::new(&self.shared.egress, &self.vitals);
        let mut show = interval(SHOW_EVERY);
        show.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = show.tick() => display.refresh(&self.shared.egress),
                event = self.slots.next_event(async || self.listener.accept().await, true) => match event {
                    ConnectionEvent::Accepted((stream, peer)) => {
                        let shared = self.shared.clone();
                        self.slots.serve(peer, |_, slot| async move { serve(stream, &slot, &shared).await });
                        // Whoever else runs on this arbiter has a turn, too, however many are dialling.
                        yield_now().await;
                    }
                    ConnectionEvent::Ended { peer, end, .. } => self.note_end(peer, end),
                }
            }
        }
    }

    fn note_end(&self, peer: SocketAddr, end: Option<End>) {
        match end {
            Some(End::Refused(error)) => {
                self.refused.add(1);
                tracing::debug!(%peer, "worker connection refused: {error}");
            }
            Some(end) => tracing::info!(%peer, "worker connection ended: {end}"),
            None => tracing::error!(%peer, "worker connection panicked"),
        }
    }
}
