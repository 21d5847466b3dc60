//! Fake worker that reconnects whenever its connection ends, as libzmq does.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

use orchestrator_harness::{ZmtpPeer, wait_for};
use serde_json::Value;

use crate::detector::pixels;

/// Received event: its scan, its number, and whether its item is correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) scan: u64,
    pub(crate) event: u64,
    pub(crate) right: bool,
}

/// Running worker.
pub(crate) struct Worker {
    name: String,
    heard: Arc<Mutex<Vec<Heard>>>,
    closed: Arc<AtomicBool>,
    reading: JoinHandle<()>,
}

impl Worker {
    pub(crate) fn dial(port: u16, name: &str) -> Self {
        let (heard, closed) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let (list, over, own) = (heard.clone(), closed.clone(), name.to_owned());
        let reading = thread::spawn(move || {
            while !over.load(SeqCst) {
                let dialled = wait_for("the ingester to listen, or the end", || {
                    let peer = ZmtpPeer::connect(port, "DEALER", &own).ok();
                    if over.load(SeqCst) { Some(None) } else { peer.map(Some) }
                });
                let Some(mut peer) = dialled else { return };
                // The next read fails if the connection has closed.
                let _ = peer.send(&[&ping(&own)]);
                while let Ok(parts) = peer.receive() {
                    lock(&list).push(event(&parts));
                }
            }
        });
        Self { name: name.to_owned(), heard, closed, reading }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Number of events of one scan so far.
    pub(crate) fn count(&self, scan: u64) -> u64 {
        lock(&self.heard).iter().filter(|heard| heard.scan == scan).count() as u64
    }

    /// Stops reconnecting. The caller stops the ingester next.
    pub(crate) fn close(&self) {
        self.closed.store(true, SeqCst);
    }

    /// All received events in order, after the end of the ingester.
    pub(crate) fn join(self) -> Vec<Heard> {
        self.reading.join().expect("it reads to the end");
        lock(&self.heard).clone()
    }
}

/// Version 4 uuid derived from the name.
pub(crate) fn ping(name: &str) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
    (uuid[6], uuid[8]) = (0x40, 0x80);
    uuid
}

fn event(parts: &[Vec<u8>]) -> Heard {
    let json = |part: &[u8]| serde_json::from_slice::<Value>(part).expect("JSON");
    let (header, item) = (json(&parts[0]), json(&parts[1]));
    let event = header["event_number"].as_u64().expect("a number");
    let scan = item["scan"].as_u64().expect("a number");
    let right = match item["htype"].as_str() {
        Some("header") => event == 0 && parts.len() == 2,
        Some("image") => {
            let frame = item["frame"].as_u64().expect("a number");
            event == frame + 1 && parts.len() == 3 && parts[2] == pixels(scan, frame)
        }
        _ => parts.len() == 2,
    };
    Heard { scan, event, right }
}

fn lock(heard: &Mutex<Vec<Heard>>) -> MutexGuard<'_, Vec<Heard>> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
