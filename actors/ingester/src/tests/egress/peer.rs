//! A worker's side of the port, and the tree under test.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use orchestrator_ingester_zmtp::{Decoder, FrameLimits, Incoming};
use orchestrator_supervise::{
    Child, ChildCx, ChildSpec, Factory, Handle, Handled, InboxSlot, Outbox, Placement, Strategy,
    SupervisorSpec, Tree, inbox, mailbox,
    testing::{TestTree, eventually},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::{
    edge::egress::{Egress, EgressLimits, Message, PeerState, factory, spill_factory},
    messages::WorkerPinged,
};

/// Time-out of each expected event.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Greeting and READY of a libzmq DEALER.
pub(crate) fn opening(identity: &str) -> Vec<u8> {
    let mut bytes = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL".to_vec();
    bytes.resize(64, 0);
    let ready = [
        &b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0"[..],
        &[identity.len() as u8],
        identity.as_bytes(),
    ]
    .concat();
    bytes.extend([4, ready.len() as u8]);
    bytes.extend(ready);
    bytes
}

/// A worker's connection.
pub(crate) struct Worker {
    pub(crate) stream: TcpStream,
    decoder: Decoder,
}

impl Worker {
    /// Connects and waits for the greeting.
    pub(crate) async fn dial(port: SocketAddr, identity: &str) -> Self {
        Self::dial_with(port, identity, None).await
    }

    /// Like `dial`, with a receive buffer of `buffer` bytes.
    pub(crate) async fn dial_with(port: SocketAddr, identity: &str, buffer: Option<u32>) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        if let Some(buffer) = buffer {
            socket.set_recv_buffer_size(buffer).expect("an option");
        }
        let mut stream = socket.connect(port).await.expect("a listener");
        stream.write_all(&opening(identity)).await.expect("room");
        let mut greeting = [0; 64];
        stream.read_exact(&mut greeting).await.expect("a greeting");
        let limits = FrameLimits { frame_max: 1 << 26, message_max: 1 << 26, parts_max: 64 };
        Self { stream, decoder: Decoder::new(limits, 1 << 16) }
    }

    pub(crate) async fn ping(&mut self, uuid: [u8; 16]) {
        self.stream.write_all(&[&b"\0\x10"[..], &uuid].concat()).await.expect("room");
    }

    /// Next message; None after a close or a reset.
    pub(crate) async fn next(&mut self) -> Option<Vec<Bytes>> {
        timeout(TIMEOUT, async {
            loop {
                match self.decoder.decode().expect("well formed") {
                    Some(Incoming::Message(parts)) => return Some(parts.into_vec()),
                    Some(Incoming::Command(_)) => continue,
                    None => {}
                }
                if !matches!(self.stream.read_buf(&mut self.decoder.space()).await, Ok(1..)) {
                    return None;
                }
            }
        })
        .await
        .expect("a message or the end in time")
    }
}

/// A message with its number as header, and a frame of `len` bytes derived from it.
pub(crate) fn message(number: u64, len: usize) -> Arc<Message> {
    let header = Bytes::from(format!("{{\"event_number\":{number}}}"));
    let frame: Vec<u8> = (0..len).map(|at| (at as u64 ^ number) as u8).collect();
    let frames = [Bytes::from(frame)].into_iter().collect();
    Arc::new(Message { event: number, header, frames, received: Instant::now() })
}

pub(crate) fn parts(message: &Message) -> Vec<Bytes> {
    std::iter::once(&message.header).chain(&message.frames).cloned().collect()
}

/// Actor that collects the pings for the test.
struct Collector(Outbox<WorkerPinged>);

impl Child for Collector {}

impl Handle<WorkerPinged> for Collector {
    fn handle(&mut self, ping: WorkerPinged, _cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        self.0.tell(ping).expect("room for it");
        Handled::done()
    }
}

/// An egress in its own tree, whose children run on another thread than the test.
pub(crate) struct Fixture {
    pub(crate) egress: Egress,
    pub(crate) tree: Tree,
    pub(crate) pings: InboxSlot<WorkerPinged>,
    pub(crate) port: SocketAddr,
}

impl Fixture {
    pub(crate) fn run<Fut: Future<Output = ()>>(limits: EgressLimits, test: impl FnOnce(Fixture) -> Fut) {
        let egress = Egress::new(limits);
        let (outbox, pings) = inbox::<WorkerPinged>(1024);
        let (mailbox, slot) = mailbox::<Collector>(1024);
        let collector = Factory::actor(slot, move |_| Ok(Collector(outbox.clone())));
        let listen = "127.0.0.1:0".parse().expect("an address");
        let spec = SupervisorSpec::new(Strategy::OneForOne)
            .child(ChildSpec::worker("spill", spill_factory(egress.clone())))
            .child(ChildSpec::worker("collector", collector))
            .child(
                ChildSpec::worker("egress", factory(listen, egress.clone(), mailbox.recipient()))
                    .placement(Placement::Dedicated)
                    .sends_to(&mailbox),
            );
        TestTree::run(spec, |tree| async move {
            eventually("it listens", || egress.local_addr().is_some()).await;
            let port = egress.local_addr().expect("a port");
            test(Fixture { egress, tree, pings, port }).await;
        });
    }

    /// Sends, waiting for room.
    pub(crate) async fn send(&self, worker: &str, message: &Arc<Message>) {
        timeout(TIMEOUT, async {
            while self.egress.burst().try_send(worker, message).is_err() {
                self.egress.wait_for_room(worker).await;
            }
        })
        .await
        .expect("room in time");
    }

    pub(crate) fn peer(&self, worker: &str) -> Option<PeerState> {
        self.egress.peers().into_iter().find(|peer| &*peer.worker == worker)
    }

    pub(crate) async fn connected(&self, worker: &str) {
        eventually("the worker is connected", || self.peer(worker).is_some_and(|peer| peer.connected)).await;
    }

    pub(crate) fn metric(&self, child: &str, name: &str) -> i64 {
        let node = self.tree.node(child).expect("a child");
        node.metrics.iter().find(|metric| metric.name == name).map_or(-1, |metric| metric.value)
    }
}

/// Limits with memory for each worker and disk space, bytes.
pub(crate) fn limits(bytes_per_peer: usize, spill_bytes: u64) -> EgressLimits {
    EgressLimits { bytes_per_peer, spill_bytes, segment_bytes: 1 << 20, ..EgressLimits::default() }
}
