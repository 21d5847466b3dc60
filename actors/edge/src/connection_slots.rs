//! Connections of one listener, up to a limit. A connection beyond the limit evicts another one.

use std::{
    collections::HashMap,
    future::pending,
    io,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use orchestrator_observe::Metric;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Longest pause of accepting while the system is out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// State of one connection, shared with its handler.
#[derive(Debug)]
pub struct ConnectionSlot {
    priority: AtomicU8,
    /// Tick at which the priority was set last.
    since: AtomicU64,
    /// Counter of ticks, shared by all connections.
    clock: Arc<AtomicU64>,
    closing: AtomicBool,
    close: Arc<Notify>,
}

impl ConnectionSlot {
    /// Priority on the listener's own scale; initially 0.
    pub fn priority(&self) -> u8 {
        self.priority.load(Relaxed)
    }

    /// Tick at which the priority was set last: smaller is earlier.
    pub fn last_changed(&self) -> u64 {
        self.since.load(Relaxed)
    }

    /// Sets the priority and the tick of the change.
    pub fn set_priority(&self, priority: u8) {
        self.priority.store(priority, Relaxed);
        self.since.store(self.clock.fetch_add(1, Relaxed), Relaxed);
    }

    /// Returns true if the connection was asked to close.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Waits until the connection is asked to close. Each request wakes one waiter once.
    pub async fn closing(&self) {
        self.close.notified().await;
    }

    /// Notification that closes the connection; others may send it, too.
    pub fn close_notify(&self) -> Arc<Notify> {
        self.close.clone()
    }

    fn close(&self) {
        self.closing.store(true, Relaxed);
        self.close.notify_one();
    }
}

/// Chooses the connection to evict from those not yet closing, or none. The number is that of all
/// connections.
pub type EvictionPolicy =
    for<'a> fn(usize, &mut dyn Iterator<Item = &'a ConnectionSlot>) -> Option<&'a ConnectionSlot>;

/// Event of a listener's connections.
#[derive(Debug)]
pub enum ConnectionEvent<S, P, E> {
    /// A connection was accepted; pass it to [`ConnectionSlots::serve`].
    Accepted(S),
    /// A connection ended.
    Ended {
        /// Number of the connection, from 0.
        id: u64,
        /// Peer of the connection.
        peer: P,
        /// Result of the handler; None if it panicked.
        end: Option<E>,
    },
}

/// Connections of one listener, with peers `P` and handler results `E`. Dropping it drops all connections.
pub struct ConnectionSlots<P, E> {
    max: usize,
    eviction_policy: EvictionPolicy,
    connected: Option<Metric>,
    evicted: Option<Metric>,
    open: HashMap<u64, Arc<ConnectionSlot>>,
    served: FuturesUnordered<LocalBoxFuture<'static, (u64, P, Option<E>)>>,
    clock: Arc<AtomicU64>,
    next_id: u64,
    /// End of a pause of accepting.
    accept_after: Option<Instant>,
}

impl<P: 'static, E: 'static> ConnectionSlots<P, E> {
    /// Creates slots for `max` connections. The gauge `connected` is their number; the counter `evicted`
    /// counts evictions.
    pub fn new(
        max: usize,
        eviction_policy: EvictionPolicy,
        connected: impl Into<Option<Metric>>,
        evicted: impl Into<Option<Metric>>,
    ) -> Self {
        Self {
            max,
            eviction_policy,
            connected: connected.into(),
            evicted: evicted.into(),
            open: HashMap::new(),
            served: FuturesUnordered::new(),
            clock: Arc::default(),
            next_id: 0,
            accept_after: None,
        }
    }

    /// Returns true if there is no connection.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns true if the next connection is accepted only after the end of another one.
    pub fn is_full(&self) -> bool {
        self.open.len() > self.max
    }

    /// Drives all connections until one ends or, if `may_accept`, `accept` returns a new one. Dropping the
    /// future loses nothing.
    pub async fn next_event<S>(
        &mut self,
        accept: impl AsyncFn() -> io::Result<S>,
        may_accept: bool,
    ) -> ConnectionEvent<S, P, E> {
        loop {
            self.show_connected();
            // One connection beyond the limit is accepted; the next one only after the evicted one has ended.
            let can_accept = self.accept_after.is_none() && !self.is_full();
            tokio::select! {
                biased;
                Some((id, peer, end)) = self.served.next(), if !self.served.is_empty() => {
                    self.open.remove(&id);
                    self.show_connected();
                    self.accept_after = None;
                    return ConnectionEvent::Ended { id, peer, end };
                }
                () = sleep_until(self.accept_after.unwrap_or_else(Instant::now)), if self.accept_after.is_some() => {
                    self.accept_after = None;
                }
                accepted = accept(), if may_accept && can_accept => match accepted {
                    Ok(stream) => return ConnectionEvent::Accepted(stream),
                    // The peer gave up before the accept.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection: evicting another one");
                        self.evict();
                        // Until the evicted one has ended, or other resources were freed.
                        self.accept_after = Some(Instant::now() + ACCEPT_PAUSE);
                    }
                },
                else => pending().await,
            }
        }
    }

    /// Adds a connection to `peer`, driven by the future that `handler` creates from its number and slot.
    /// Beyond the limit, it evicts another connection.
    pub fn serve<F: Future<Output = E> + 'static>(
        &mut self,
        peer: P,
        handler: impl FnOnce(u64, Arc<ConnectionSlot>) -> F,
    ) {
        let (id, slot) = self.open_slot();
        let connection = AssertUnwindSafe(handler(id, slot)).catch_unwind();
        // A panic ends only its own connection.
        self.served.push(connection.map(move |end| (id, peer, end.ok())).boxed_local());
        if self.is_full() {
            self.evict();
        }
    }

    /// Asks a connection chosen by the eviction policy to close; returns false if there is none.
    pub fn evict(&self) -> bool {
        let mut candidates = self.open.values().map(|slot| &**slot).filter(|slot| !slot.is_closing());
        let evicted = (self.eviction_policy)(self.open.len(), &mut candidates);
        self.evicted.iter().for_each(|metric| metric.add(u64::from(evicted.is_some())));
        evicted.inspect(|slot| slot.close()).is_some()
    }

    /// Asks all connections to close.
    pub fn close_all(&self) {
        self.open.values().for_each(|slot| slot.close());
    }

    fn show_connected(&self) {
        self.connected.iter().for_each(|metric| metric.set(self.open.len() as u64));
    }

    fn open_slot(&mut self) -> (u64, Arc<ConnectionSlot>) {
        let id = self.next_id;
        self.next_id += 1;
        let slot = Arc::new(ConnectionSlot {
            priority: AtomicU8::new(0),
            since: AtomicU64::new(self.clock.fetch_add(1, Relaxed)),
            clock: self.clock.clone(),
            closing: AtomicBool::new(false),
            close: Arc::default(),
        });
        self.open.insert(id, slot.clone());
        (id, slot)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use orchestrator_observe::MetricKind;
    use orchestrator_supervise::testing;

    use super::*;

    /// Slots that evict the oldest connection, and the counter of evictions.
    fn slots(max: usize) -> (ConnectionSlots<u64, &'static str>, Metric) {
        let vitals = testing::vitals("test/slots");
        let metric = |name| vitals.register(name, "", MetricKind::Counter, "Test metric.");
        let evicted = metric("evicted");
        let oldest: EvictionPolicy = |_, slots| slots.min_by_key(|slot| slot.last_changed());
        (ConnectionSlots::new(max, oldest, metric("connected"), evicted.clone()), evicted)
    }

    fn serve(slots: &mut ConnectionSlots<u64, &'static str>, peer: u64) {
        slots.serve(peer, |_, slot| async move {
            slot.closing().await;
            assert_ne!(peer, 13, "injected panic");
            "asked to"
        });
    }

    #[tokio::test]
    async fn a_connection_beyond_the_limit_evicts_the_oldest() {
        let (mut slots, evicted) = slots(2);
        for peer in 0..10 {
            let ConnectionEvent::Accepted(peer) = slots.next_event(async || Ok(peer), true).await else {
                panic!("{peer} was not accepted")
            };
            serve(&mut slots, peer);
            if peer < 2 {
                continue;
            }
            let ConnectionEvent::Ended { id, peer: gone, end } =
                slots.next_event(async || Ok(peer), true).await
            else {
                panic!("more than one beyond the limit")
            };
            assert_eq!((id, gone, end), (peer - 2, peer - 2, Some("asked to")));
        }
        assert_eq!(evicted.get(), 8);
        slots.close_all();
        for _ in 0..2 {
            assert!(matches!(slots.next_event(async || Ok(0), false).await, ConnectionEvent::Ended { .. }));
        }
        assert!(slots.is_empty());
    }

    #[tokio::test]
    async fn a_panic_ends_only_its_own_connection() {
        let (mut slots, _) = slots(5);
        serve(&mut slots, 13);
        serve(&mut slots, 14);
        slots.close_all();
        let mut ended = Vec::new();
        while !slots.is_empty() {
            if let ConnectionEvent::Ended { peer, end, .. } = slots.next_event(async || Ok(()), false).await {
                ended.push((peer, end));
            }
        }
        ended.sort_unstable();
        assert_eq!(ended, [(13, None), (14, Some("asked to"))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_accept_evicts_and_pauses() {
        let (mut slots, evicted) = slots(5);
        let (began, tries) = (Instant::now(), Cell::new(0));
        let accept = async || {
            tries.set(tries.get() + 1);
            match tries.get() {
                1 => Err(io::ErrorKind::ConnectionAborted.into()),
                2..4 => Err(io::Error::from_raw_os_error(24)),
                _ => Ok(1),
            }
        };
        assert!(matches!(slots.next_event(&accept, true).await, ConnectionEvent::Accepted(1)));
        assert_eq!(
            (tries.get(), began.elapsed(), evicted.get()),
            (4, ACCEPT_PAUSE * 2, 0),
            "no connection to evict"
        );
        serve(&mut slots, 1);
        tries.set(1);
        let ConnectionEvent::Ended { peer: 1, .. } = slots.next_event(&accept, true).await else {
            panic!("the connection is evicted")
        };
        assert_eq!((tries.get(), began.elapsed()), (2, ACCEPT_PAUSE * 2), "its end ends the pause");
        assert!(matches!(slots.next_event(&accept, true).await, ConnectionEvent::Accepted(1)));
    }
}
