//! Limit of the connections of one socket, with a reserve for probes: `/livez`, `/readyz` and `/metrics`.
//!
//! Requests other than probes are admitted to a part of the connections only, and wait for one. While all
//! connections are in use, those that are not admitted within [`GRACE`] are closed for new ones, the oldest
//! first: clients with slow heads or unread answers.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::task::AtomicWaker;
use orchestrator_supervise::Metric;
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep, timeout},
};

/// Maximum number of concurrent connections on each socket. More wait in the backlog.
const CONNECTIONS_MAX: u64 = 192;
/// Divisor of the process's file descriptors that gives the share of both sockets. The subsystems need the
/// rest.
const DESCRIPTORS_SHARE: u64 = 32;
/// Divisor of the connections that gives the reserve for probes.
const PROBES_SHARE: usize = 8;
/// Time for which a connection is kept although it is not admitted and all are in use.
const GRACE: Duration = Duration::from_millis(100);
/// Longest wait of a request for its admission.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Each socket has this limit of its own.
pub(crate) fn connections_max() -> usize {
    // The hard limit, to which subsystems raise the soft limit.
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    (descriptors / DESCRIPTORS_SHARE / 2).clamp(8, CONNECTIONS_MAX) as usize
}

pub(crate) fn is_probe(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz" | "/metrics")
}

/// Limit of one socket.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    max: usize,
    /// Free places for requests other than probes.
    places: Arc<Semaphore>,
    open: Mutex<Open>,
    evicted: Metric,
}

#[derive(Debug, Default)]
struct Open {
    next_id: u64,
    /// Connections from the oldest one on.
    connections: BTreeMap<u64, Arc<Shared>>,
}

/// State of a connection that its slot and the limit share.
#[derive(Debug, Default)]
struct Shared {
    /// True once [`GRACE`] is over.
    is_old: AtomicBool,
    /// True if a request other than a probe is answered. Such a connection is not closed for others.
    is_admitted: AtomicBool,
    is_evicted: AtomicBool,
    /// True once the client has sent something.
    has_input: AtomicBool,
    waker: AtomicWaker,
}

impl ConnectionLimit {
    /// Creates a limit of `max` connections. `evicted` counts those that were closed for others.
    pub(crate) fn new(max: usize, evicted: Metric) -> Self {
        let places = Arc::new(Semaphore::new(max - max / PROBES_SHARE));
        Self { max, places, open: Mutex::default(), evicted }
    }

    pub(crate) fn open(self: &Arc<Self>) -> Arc<Slot> {
        let shared: Arc<Shared> = Arc::default();
        let mut open = self.open.lock();
        let id = open.next_id;
        open.next_id += 1;
        open.connections.insert(id, shared.clone());
        self.evict_if_full(&open);
        drop(open);
        Arc::new(Slot { id, shared, limit: self.clone(), place: Mutex::default() })
    }

    /// Closes the oldest connection that may be closed, if all are in use.
    fn evict_if_full(&self, open: &Open) {
        let may_close = |one: &&Arc<Shared>| {
            one.is_old.load(Relaxed) && !one.is_admitted.load(Relaxed) && !one.is_evicted.load(Relaxed)
        };
        if open.connections.len() >= self.max
            && let Some(evicted) = open.connections.values().find(may_close)
        {
            evicted.is_evicted.store(true, Relaxed);
            evicted.waker.wake();
            self.evicted.add(1);
        }
    }
}

/// Place of a connection in its limit. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Slot {
    id: u64,
    shared: Arc<Shared>,
    limit: Arc<ConnectionLimit>,
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Slot {
    /// Waits until a request other than a probe may be answered. Returns false if that takes too long.
    pub(crate) async fn admit(&self) -> bool {
        let Ok(Ok(place)) = timeout(ADMISSION_TIMEOUT, self.limit.places.clone().acquire_owned()).await
        else {
            return false;
        };
        *self.place.lock() = Some(place);
        self.shared.is_admitted.store(true, Relaxed);
        !self.is_evicted()
    }

    /// True if the connection was closed for another one.
    pub(crate) fn is_evicted(&self) -> bool {
        self.shared.is_evicted.load(Relaxed)
    }

    pub(crate) fn has_input(&self) -> bool {
        self.shared.has_input.load(Relaxed)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.limit.open.lock().connections.remove(&self.id);
    }
}

/// Stream `S` that fails once its connection is evicted.
#[derive(Debug)]
pub(crate) struct LimitedConnection<S> {
    stream: S,
    slot: Arc<Slot>,
    /// End of the grace period; None once it is over.
    grace: Option<Pin<Box<Sleep>>>,
}

impl<S> LimitedConnection<S> {
    pub(crate) fn new(stream: S, slot: Arc<Slot>) -> Self {
        Self { stream, slot, grace: Some(Box::pin(sleep(GRACE))) }
    }

    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }

    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Fails if the connection is evicted, and otherwise wakes the task when it is.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Slot { shared, limit, .. } = &*self.slot;
        shared.waker.register(cx.waker());
        if self.grace.as_mut().is_some_and(|grace| grace.as_mut().poll(cx).is_ready()) {
            self.grace = None;
            shared.is_old.store(true, Relaxed);
            limit.evict_if_full(&limit.open.lock());
        }
        if self.slot.is_evicted() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.slot.shared.has_input.store(true, Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedConnection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
