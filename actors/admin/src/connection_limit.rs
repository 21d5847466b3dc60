//! Limit of the connections of one socket, with a reserve for probes: `/livez`, `/readyz` and `/metrics`.
//!
//! At the limit, a new connection closes the oldest one whose request is not admitted: its head is not complete, or it is a probe, or it was
//! refused. Requests other than probes are admitted to a part of the connections only, so that there is always one to close.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use orchestrator_supervise::Metric;
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum number of concurrent connections on each socket. More wait in the backlog.
const CONNECTIONS_MAX: u64 = 192;
/// Divisor of the process's file descriptors that gives the share of both sockets. The subsystems need the rest.
const DESCRIPTORS_SHARE: u64 = 32;
/// Divisor of the connections that gives the reserve for probes.
const PROBES_SHARE: usize = 8;

/// Returns the maximum number of concurrent connections on each socket.
pub(crate) fn connections_max() -> usize {
    // The hard limit, to which subsystems raise the soft limit.
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    (descriptors / DESCRIPTORS_SHARE / 2).clamp(8, CONNECTIONS_MAX) as usize
}

/// Returns true if requests for `path` are probes.
pub(crate) fn is_probe(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz" | "/metrics")
}

/// Limit of one socket.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    max: usize,
    /// Connections from the oldest one on.
    open: Mutex<Open>,
    evicted: Metric,
}

#[derive(Debug, Default)]
struct Open {
    next_id: u64,
    connections: BTreeMap<u64, Arc<Shared>>,
}

/// State of a connection that its handler and the limit share.
#[derive(Debug, Default)]
struct Shared {
    /// True if a request other than a probe is answered. Such a connection is not closed for others.
    is_admitted: AtomicBool,
    is_evicted: AtomicBool,
    waker: AtomicWaker,
}

impl ConnectionLimit {
    /// Creates a limit of `max` connections. `evicted` counts those that were closed for others.
    pub(crate) fn new(max: usize, evicted: Metric) -> Self {
        Self { max, open: Mutex::default(), evicted }
    }

    /// Adds a connection.
    pub(crate) fn open(self: &Arc<Self>) -> Arc<Slot> {
        let shared: Arc<Shared> = Arc::default();
        let mut open = self.open.lock();
        if open.connections.len() + 1 >= self.max {
            self.evict(&open);
        }
        let id = open.next_id;
        open.next_id += 1;
        open.connections.insert(id, shared.clone());
        drop(open);
        Arc::new(Slot { id, shared, limit: self.clone() })
    }

    /// Closes the oldest connection that may be closed.
    fn evict(&self, open: &Open) {
        let may_close = |one: &&Arc<Shared>| !one.is_admitted.load(Relaxed) && !one.is_evicted.load(Relaxed);
        if let Some(evicted) = open.connections.values().find(may_close) {
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
}

impl Slot {
    /// Records that the head of a request has arrived. Returns false if the request must be refused: it is no probe, and only the
    /// reserve is free.
    pub(crate) fn begin(&self, is_probe: bool) -> bool {
        if is_probe {
            return true;
        }
        let open = self.limit.open.lock();
        let admitted = open.connections.values().filter(|one| one.is_admitted.load(Relaxed)).count();
        let is_free = admitted < self.limit.max - self.limit.max / PROBES_SHARE && !self.is_evicted();
        self.shared.is_admitted.store(is_free, Relaxed);
        is_free
    }

    /// Returns true if the connection was closed for another one.
    pub(crate) fn is_evicted(&self) -> bool {
        self.shared.is_evicted.load(Relaxed)
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
}

impl<S> LimitedConnection<S> {
    pub(crate) fn new(stream: S, slot: Arc<Slot>) -> Self {
        Self { stream, slot }
    }

    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }

    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Returns an error if the connection is evicted, and otherwise wakes the task when it is.
    fn check(&self, cx: &Context<'_>) -> io::Result<()> {
        self.slot.shared.waker.register(cx.waker());
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
        Pin::new(&mut self.stream).poll_read(cx, buffer)
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
