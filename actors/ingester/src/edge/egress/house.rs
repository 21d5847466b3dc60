//! The child that owns the port and every connection: dropping its one future ends them all.

use std::{io, net::SocketAddr, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use orchestrator_supervise::{Factory, Fault, Outbox, StartCx, Vitals, metrics};
use tokio::{
    net::{TcpListener, TcpStream},
    task::yield_now,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{
    Egress, Ping,
    connection::{End, Shared, serve},
    display::Display,
    listener::listen,
    seats::{Seats, connection_limit},
};

/// How long accepting rests at the most when the system is out of descriptors or memory.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// How often sums over all peers are shown anew.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// The child that listens for workers at `listen_at` and serves them from `egress`. Good pings go to `pings`; where that is full they are
/// dropped. It fails if the port is taken. Stopped, it ends at once, as the original does: queues stay for the next start.
pub fn factory(listen_at: SocketAddr, egress: Egress, pings: Outbox<Ping>) -> Factory {
    Factory::task(move |cx: StartCx| {
        let (egress, pings) = (egress.clone(), pings.clone());
        async move {
            let link = cx.vitals.link("worker port", listen_at.to_string());
            let listener = listen(listen_at).map_err(|error| Fault::from_error(&error))?;
            egress.lock().listening_at = listener.local_addr().ok();
            link.up();
            let house = House::new(listener, egress, pings, &cx.vitals);
            // The children of this future have a fair order of their own; tokio's budget would only wake it up in vain.
            tokio::select! {
                biased;
                () = cx.stop.cancelled() => {}
                () = tokio::task::unconstrained(house.run()) => {}
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
        sent_away: counter("") as "connections_sent_away",
        /// Connections at the workers' port that did not speak its protocol.
        refused: counter("") as "handshakes_refused",
        /// Messages of workers that are no pings, passed over.
        bad_pings: counter(""),
    }
}

struct House {
    listener: TcpListener,
    connections_max: usize,
    shared: Arc<Shared>,
    metrics: PortMetrics,
    vitals: Arc<Vitals>,
}

impl House {
    fn new(listener: TcpListener, egress: Egress, pings: Outbox<Ping>, vitals: &Arc<Vitals>) -> Self {
        let connections_max = egress.inner.limits.connections_max.unwrap_or_else(connection_limit);
        let metrics = PortMetrics::register(vitals);
        let bad_pings = metrics.bad_pings.clone();
        let shared = Arc::new(Shared { egress, pings, bad_pings });
        Self { listener, connections_max, shared, metrics, vitals: vitals.clone() }
    }

    async fn run(self) {
        let mut seats = Seats::default();
        let mut connections = FuturesUnordered::new();
        let mut resting = None;
        let mut display = Display::new(&self.shared.egress, &self.vitals);
        let mut show = interval(SHOW_EVERY);
        show.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.metrics.connections.set(seats.len() as u64);
            // One more than the limit may come in; then one has to be gone before the next.
            let may_accept = resting.is_none() && seats.len() <= self.connections_max;
            tokio::select! {
                biased;
                _ = show.tick() => display.refresh(&self.shared.egress),
                Some((id, peer, end)) = connections.next(), if !connections.is_empty() => {
                    seats.leave(id);
                    resting = None;
                    self.note_end(peer, end);
                }
                () = sleep_until(resting.unwrap_or_else(Instant::now)), if resting.is_some() => resting = None,
                accepted = self.listener.accept(), if may_accept => {
                    match accepted {
                        Ok((stream, peer)) => {
                            connections.push(self.admit(stream, peer, &mut seats));
                            if seats.len() > self.connections_max {
                                self.metrics.sent_away.add(u64::from(seats.send_away()));
                            }
                        }
                        // Its peer gave up while it waited.
                        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                        Err(error) => {
                            tracing::warn!(%error, "cannot accept a worker: closing the connection that matters least");
                            self.metrics.sent_away.add(u64::from(seats.send_away()));
                            // Until that one is gone, or something else has given back what is missing.
                            resting = Some(Instant::now() + ACCEPT_REST);
                        }
                    }
                    // Whoever else runs on this arbiter has a turn, too, however many are dialling.
                    yield_now().await;
                }
            }
        }
    }

    fn admit(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        seats: &mut Seats,
    ) -> impl Future<Output = (u64, SocketAddr, Option<End>)> + use<> {
        let (id, seat) = seats.take();
        let shared = self.shared.clone();
        // A panic ends its own connection only.
        async move {
            let end = AssertUnwindSafe(serve(stream, &seat, &shared)).catch_unwind().await;
            (id, peer, end.ok())
        }
    }

    fn note_end(&self, peer: SocketAddr, end: Option<End>) {
        match end {
            Some(End::Refused(error)) => {
                self.metrics.refused.add(1);
                tracing::debug!(%peer, "worker connection refused: {error}");
            }
            Some(end) => tracing::info!(%peer, "worker connection ended: {end}"),
            None => tracing::error!(%peer, "worker connection panicked"),
        }
    }
}
