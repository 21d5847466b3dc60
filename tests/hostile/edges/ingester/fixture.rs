//! One ingester with its Redis, a fake controller, and a source and workers.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use orchestrator_harness::{Controller, Redis, ZmtpPeer, free_port};
use serde_json::{Value, json};

/// Name of the ingester.
const NAME: &str = "eiger-ingester";
/// Time after which an update that was not accepted is published again, as after a restart of the controller.
const AGAIN: Duration = Duration::from_millis(500);

/// Redis, controller and mappings of the ingester.
pub(super) struct IngesterFixture {
    pub(super) redis: Redis,
    /// TCP port for workers.
    pub(super) port: u16,
    begun: u64,
    taken: u64,
    asked: Instant,
    streams: &'static [&'static str],
    events: u64,
}

fn mapping(number: u64) -> String {
    format!("6277a4d0-975c-4dfe-97be-{number:012x}")
}

impl IngesterFixture {
    /// Creates a fixture with mappings of these streams.
    pub(super) fn new(streams: &'static [&'static str]) -> Self {
        let (redis, port) = (Redis::start(), free_port());
        Self { redis, port, begun: 0, taken: 0, asked: Instant::now(), streams, events: 0 }
    }

    /// Configuration section of the ingester. `stream` has the keys of its one stream, `eiger`.
    pub(super) fn section(&self, redis: impl std::fmt::Display, stream: &str) -> String {
        format!(
            "[[ingester]]\nname = \"{NAME}\"\nlisten = \"127.0.0.1:{}\"\nredis_url = \"redis://{redis}/0\"\nspill_bytes = 0\n\
             [[ingester.stream]]\nname = \"eiger\"\n{stream}\n",
            self.port,
        )
    }

    fn controller(&self) -> Controller<'_> {
        Controller::new(&self.redis, NAME)
    }

    /// Publishes the next mapping, or its update once more. An ingester reads no updates older than its
    /// registration.
    pub(super) fn begin(&mut self) {
        let is_waited_for = self.begun > self.taken && self.asked.elapsed() < AGAIN;
        // Its key may expire during the attack; then it reads updates already.
        if is_waited_for || self.taken == 0 && self.controller().ingester_state().is_none() {
            return;
        }
        self.begun += 1;
        self.events = 0;
        self.asked = Instant::now();
        self.controller().publish_update(&Controller::update_json(&mapping(self.begun), self.streams, false));
    }

    /// Publishes a mapping unless one is accepted.
    pub(super) fn ensure(&mut self) {
        if self.taken() < self.begun || self.begun == 0 {
            self.begin();
        }
    }

    /// Number of the last mapping that the ingester accepted, or 0.
    pub(super) fn taken(&mut self) -> u64 {
        let uuid = self
            .controller()
            .ingester_state()
            .and_then(|state| Some(state["mapping_uuid"].as_str()?.to_owned()));
        let number = uuid.and_then(|uuid| u64::from_str_radix(uuid.rsplit('-').next()?, 16).ok());
        self.taken = number.unwrap_or(0).min(self.begun).max(self.taken);
        self.taken
    }

    /// Returns true if the ingester has accepted the last mapping.
    pub(super) fn is_taken(&mut self) -> bool {
        self.begun > 0 && self.taken() == self.begun
    }

    /// Assigns the next `count` events of the mapping to `worker`.
    pub(super) fn assign(&mut self, count: u64, worker: &str) {
        let event = |number| (number, json!({"eiger": [worker]}));
        let events: Vec<(u64, Value)> = (self.events..self.events + count).map(event).collect();
        self.events += count;
        self.controller().assign_events(&mapping(self.begun), &events);
    }
}

/// Messages of a source.
#[derive(Debug, Clone, Copy)]
pub(super) enum Messages {
    Stins,
    /// Those of one of several ingesters.
    StinsShare,
    EigerV2,
}

impl Messages {
    /// Name of the source in the configuration.
    pub(super) fn source(self) -> &'static str {
        match self {
            Self::Stins => "stins",
            Self::StinsShare => "stins_parallel",
            Self::EigerV2 => "eiger_v2",
        }
    }

    fn start(self) -> Vec<Vec<u8>> {
        vec![match self {
            Self::Stins | Self::StinsShare => br#"{"htype":"header","msg_number":0,"filename":""}"#.to_vec(),
            Self::EigerV2 => b"\xa2\x64type\x65start\x69series_id\x01".to_vec(),
        }]
    }

    fn image(self, frame: u64) -> Vec<Vec<u8>> {
        match self {
            Self::Stins | Self::StinsShare => {
                let head = format!(
                    r#"{{"htype":"image","frame":{frame},"shape":[1],"type":"uint8","compression":"none","msg_number":{}}}"#,
                    frame + 1
                );
                vec![head.into_bytes(), b".".to_vec()]
            }
            Self::EigerV2 => {
                let head = &b"\xa3\x64type\x65image\x69series_id\x01\x68image_id\x1b"[..];
                vec![[head, &frame.to_be_bytes()].concat()]
            }
        }
    }
}

/// Source that pushes images to every client. It stops when dropped.
pub(super) struct Source {
    pub(super) port: u16,
    handshakes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Source {
    pub(super) fn start(messages: Messages) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (handshakes, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (handshakes.clone(), stop.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if end.load(SeqCst) {
                    return;
                }
                let (count, end) = (count.clone(), end.clone());
                thread::spawn(move || {
                    let Ok(mut peer) = ZmtpPeer::from_stream(stream, "PUSH") else { return };
                    count.fetch_add(1, SeqCst);
                    let mut send =
                        |parts: Vec<Vec<u8>>| peer.send(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    let mut sent = send(messages.start());
                    for frame in 0_u64.. {
                        if sent.is_err() || end.load(SeqCst) {
                            return;
                        }
                        thread::sleep(Duration::from_millis(10));
                        sent = send(messages.image(frame));
                    }
                });
            }
        });
        Self { port, handshakes, stop }
    }

    /// Number of completed ZMTP handshakes.
    pub(super) fn handshakes(&self) -> u64 {
        self.handshakes.load(SeqCst)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        let _ = std::net::TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Returns true if a new worker of this name receives an event within `longest`.
pub(super) fn gets_event(port: u16, worker: &str, longest: Duration, assign: impl FnOnce()) -> bool {
    let Ok(mut peer) = ZmtpPeer::connect(port, "DEALER", worker) else { return false };
    assign();
    peer.set_read_timeout(longest).is_ok()
        && peer.receive().is_ok_and(|parts| parts[0].starts_with(br#"{"event_number":"#))
}
