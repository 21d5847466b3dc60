//! Connections of one listener: at most so many at a time. When one more comes, the one that matters least is asked to end.

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
use orchestrator_supervise::Metric;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// How long accepting rests at the most when the system is out of descriptors or memory.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Place of one connection among the others.
#[derive(Debug)]
pub struct ConnectionSlot {
    priority: AtomicU8,
    /// Turn at which the priority was set last.
    since: AtomicU64,
    /// Counts turns: an order in time without a clock.
    clock: Arc<AtomicU64>,
    closing: AtomicBool,
    end: Arc<Notify>,
}

impl ConnectionSlot {
    /// What the connection is worth, by the listener's own scale; 0 at first.
    pub fn priority(&self) -> u8 {
        self.priority.load(Relaxed)
    }

    /// The order in which standings were set last.
    pub fn last_changed(&self) -> u64 {
        self.since.load(Relaxed)
    }

    /// Sets the priority, as of now.
    pub fn set_priority(&self, priority: u8) {
        self.priority.store(priority, Relaxed);
        self.since.store(self.clock.fetch_add(1, Relaxed), Relaxed);
    }

    /// Tells whether the connection is asked to end.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Waits until the connection is asked to end. Heard once.
    pub async fn closing(&self) {
        self.end.notified().await;
    }

    /// Notified when the connection is to end; whoever else wants it to may do so, too.
    pub fn close_notify(&self) -> Arc<Notify> {
        self.end.clone()
    }

    fn close(&self) {
        self.closing.store(true, Relaxed);
        self.end.notify_one();
    }
}

/// Chooses the connection that is asked to end: of those given, which are not ending yet, or none of them. The number is that of all
/// connections.
pub type EvictionPolicy =
    for<'a> fn(usize, &mut dyn Iterator<Item = &'a ConnectionSlot>) -> Option<&'a ConnectionSlot>;

/// What happened at a listener.
#[derive(Debug)]
pub enum ConnectionEvent<S, P, E> {
    /// A connection came in: hand it to [`ConnectionSlots::serve`].
    Accepted(S),
    /// A connection ended.
    Ended {
        /// Its number, from 0.
        id: u64,
        /// Its peer.
        peer: P,
        /// How it ended; None: by a panic.
        end: Option<E>,
    },
}

/// Connections of one listener, to peers `P`, which end with `E`. Dropped, it ends them all.
pub struct ConnectionSlots<P, E> {
    max: usize,
    eviction_policy: EvictionPolicy,
    connected: Metric,
    evicted: Metric,
    taken: HashMap<u64, Arc<ConnectionSlot>>,
    served: FuturesUnordered<LocalBoxFuture<'static, (u64, P, Option<E>)>>,
    clock: Arc<AtomicU64>,
    next_id: u64,
    /// Until when nothing is accepted.
    resting: Option<Instant>,
}

impl<P: 'static, E: 'static> ConnectionSlots<P, E> {
    /// `max` connections at a time. `connected` shows how many there are, `evicted` counts those that were asked to end.
    pub fn new(max: usize, eviction_policy: EvictionPolicy, connected: Metric, evicted: Metric) -> Self {
        Self {
            max,
            eviction_policy,
            connected,
            evicted,
            taken: HashMap::new(),
            served: FuturesUnordered::new(),
            clock: Arc::default(),
            next_id: 0,
            resting: None,
        }
    }

    /// Tells whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Serves all connections until one ends, or another one came from `accept`, which is not asked unless `may_accept`. May be dropped
    /// and called again.
    pub async fn next_event<S>(
        &mut self,
        accept: impl AsyncFn() -> io::Result<S>,
        may_accept: bool,
    ) -> ConnectionEvent<S, P, E> {
        loop {
            self.connected.set(self.taken.len() as u64);
            // One more than the limit may come in; then one has to be gone before the next.
            let has_room = self.resting.is_none() && self.taken.len() <= self.max;
            tokio::select! {
                biased;
                Some((id, peer, end)) = self.served.next(), if !self.served.is_empty() => {
                    self.taken.remove(&id);
                    self.connected.set(self.taken.len() as u64);
                    self.resting = None;
                    return ConnectionEvent::Ended { id, peer, end };
                }
                () = sleep_until(self.resting.unwrap_or_else(Instant::now)), if self.resting.is_some() => {
                    self.resting = None;
                }
                accepted = accept(), if may_accept && has_room => match accepted {
                    Ok(stream) => return ConnectionEvent::Accepted(stream),
                    // Its peer gave up while it waited.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a worker: closing the connection that matters least");
                        self.evict();
                        // Until that one is gone, or something else has given back what is missing.
                        self.resting = Some(Instant::now() + ACCEPT_REST);
                    }
                },
                else => pending().await,
            }
        }
    }

    /// Serves a connection to `peer` with the future that `handler` makes of its number and slot, and makes room for it.
    pub fn serve<F: Future<Output = E> + 'static>(
        &mut self,
        peer: P,
        handler: impl FnOnce(u64, Arc<ConnectionSlot>) -> F,
    ) {
        let (id, slot) = self.take();
        let connection = AssertUnwindSafe(handler(id, slot)).catch_unwind();
        // A panic ends its own connection only.
        self.served.push(connection.map(move |end| (id, peer, end.ok())).boxed_local());
        if self.taken.len() > self.max {
            self.evict();
        }
    }

    /// Asks the connection that matters least to end; false if there is none to be asked.
    pub fn evict(&self) -> bool {
        let mut staying = self.taken.values().map(|slot| &**slot).filter(|slot| !slot.is_closing());
        let least = (self.eviction_policy)(self.taken.len(), &mut staying);
        self.evicted.add(u64::from(least.is_some()));
        least.inspect(|slot| slot.close()).is_some()
    }

    /// Asks all connections to end.
    pub fn close_all(&self) {
        self.taken.values().for_each(|slot| slot.close());
    }

    fn take(&mut self) -> (u64, Arc<ConnectionSlot>) {
        let id = self.next_id;
        self.next_id += 1;
        let slot = Arc::new(ConnectionSlot {
            priority: AtomicU8::new(0),
            since: AtomicU64::new(self.clock.fetch_add(1, Relaxed)),
            clock: self.clock.clone(),
            closing: AtomicBool::new(false),
            end: Arc::default(),
        });
        self.taken.insert(id, slot.clone());
        (id, slot)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use orchestrator_supervise::{MetricKind, testing};

    use super::*;

    /// Connections of which the oldest goes first, each open until it is asked to end; and how many were.
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
            assert_ne!(peer, 13, "as it is meant to");
            "asked to"
        });
    }

    #[tokio::test]
    async fn one_more_than_the_limit_sends_the_oldest_away_before_the_next_is_accepted() {
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
    async fn a_panic_ends_its_own_connection_only() {
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
    async fn without_descriptors_it_makes_room_and_rests() {
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
            (4, ACCEPT_REST * 2, 0),
            "nobody was there"
        );
        serve(&mut slots, 1);
        tries.set(1);
        let ConnectionEvent::Ended { peer: 1, .. } = slots.next_event(&accept, true).await else {
            panic!("one is there")
        };
        assert_eq!((tries.get(), began.elapsed()), (2, ACCEPT_REST * 2), "its end is no reason to wait");
        assert!(matches!(slots.next_event(&accept, true).await, ConnectionEvent::Accepted(1)));
    }
}
