//! One ingester with its Redis, the controller's part of scans, and a worker that counts events.

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

/// Its name.
const NAME: &str = "eiger-ingester";
/// An update that is not taken by then is written once more, as a controller does on its restart.
const AGAIN: Duration = Duration::from_millis(500);

/// The ingester's surroundings.
pub(super) struct Lab {
    pub(super) redis: Redis,
    /// Where workers connect to.
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

impl Lab {
    /// With mappings of these streams.
    pub(super) fn new(streams: &'static [&'static str]) -> Self {
        let (redis, port) = (Redis::start(), free_port());
        Self { redis, port, begun: 0, taken: 0, asked: Instant::now(), streams, events: 0 }
    }

    /// The ingester's section; `stream` has the keys of its one stream, `eiger`.
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

    /// Begins the next mapping, or writes its update once more. An ingester that is not in Redis yet reads nothing older.
    pub(super) fn begin(&mut self) {
        let is_waited_for = self.begun > self.taken && self.asked.elapsed() < AGAIN;
        // Its key expires while it cannot be renewed; by then it follows the updates.
        if is_waited_for || self.taken == 0 && self.controller().ingester_state().is_none() {
            return;
        }
        self.begun += 1;
        self.events = 0;
        self.asked = Instant::now();
        self.controller().publish_update(&Controller::update_json(&mapping(self.begun), self.streams, false));
    }

    /// Begins a mapping unless one is taken.
    pub(super) fn ensure(&mut self) {
        if self.taken() < self.begun || self.begun == 0 {
            self.begin();
        }
    }

    /// The last mapping that the ingester took; 0: none.
    pub(super) fn taken(&mut self) -> u64 {
        let uuid = self
            .controller()
            .ingester_state()
            .and_then(|presence| Some(presence["mapping_uuid"].as_str()?.to_owned()));
        let number = uuid.and_then(|uuid| u64::from_str_radix(uuid.rsplit('-').next()?, 16).ok());
        self.taken = number.unwrap_or(0).min(self.begun).max(self.taken);
        self.taken
    }

    /// Is the mapping that began last taken?
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

/// A source that pushes images to whoever dials, as long as they are taken. Dropped, it ends.
pub(super) struct Source {
    pub(super) port: u16,
    handshakes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Source {
    pub(super) fn start() -> Self {
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
                    let mut sent = peer.send(&[br#"{"htype":"header","msg_number":0,"filename":""}"#]);
                    for frame in 0_u64.. {
                        if sent.is_err() || end.load(SeqCst) {
                            return;
                        }
                        thread::sleep(Duration::from_millis(10));
                        let head = format!(
                            r#"{{"htype":"image","frame":{frame},"shape":[1],"type":"uint8","compression":"none","msg_number":{}}}"#,
                            frame + 1
                        );
                        sent = peer.send(&[head.as_bytes(), b"."]);
                    }
                });
            }
        });
        Self { port, handshakes, stop }
    }

    /// Connections that became ZMTP ones.
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

/// Does a new worker of this name get an event before `longest` is over?
pub(super) fn gets_event(port: u16, worker: &str, longest: Duration, assign: impl FnOnce()) -> bool {
    let Ok(mut peer) = ZmtpPeer::connect(port, "DEALER", worker) else { return false };
    assign();
    peer.set_read_timeout(longest).is_ok()
        && peer.receive().is_ok_and(|parts| parts[0].starts_with(br#"{"event_number":"#))
}
