//! Fake detector: a PUSH socket that sends over its newest connection.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

use orchestrator_harness::{ZmtpPeer, wait_for};

/// Bytes of an image.
const PIXELS: usize = 8 << 10;

/// Pixels of an image: the frame number and a pattern.
pub(crate) fn pixels(scan: u64, frame: u64) -> Vec<u8> {
    let mut pixels = vec![(scan ^ frame) as u8; PIXELS];
    pixels[..8].copy_from_slice(&frame.to_be_bytes());
    pixels
}

/// Next step of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    Go,
    Wait,
    Stop,
}

/// Detector that accepts every connection at once, so that the newest one is the ingester's current one.
pub(crate) struct Detector {
    address: SocketAddr,
    newest: Arc<Mutex<Option<ZmtpPeer>>>,
    closed: Arc<AtomicBool>,
    taking: Option<JoinHandle<()>>,
}

impl Detector {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let (newest, closed) = (Arc::<Mutex<_>>::default(), Arc::<AtomicBool>::default());
        let (slot, over) = (newest.clone(), closed.clone());
        let taking = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if over.load(SeqCst) {
                    return;
                }
                // The handshake happens under the lock, so a link that is up implies a stored connection.
                let mut newest = lock(&slot);
                // A connection that closes during the handshake is dropped.
                *newest = ZmtpPeer::from_stream(stream, "PUSH").ok();
            }
        });
        Self { address, newest, closed, taking: Some(taking) }
    }

    pub(crate) fn url(&self) -> String {
        format!("tcp://{}", self.address)
    }

    /// Sends the start of a scan.
    pub(crate) fn start(&self, scan: u64) {
        self.send(
            &[format!(r#"{{"htype":"header","msg_number":0,"filename":"","scan":{scan}}}"#).as_bytes()],
        );
    }

    /// Sends the end of a scan.
    pub(crate) fn end(&self, scan: u64) {
        self.send(&[format!(r#"{{"htype":"series_end","msg_number":1,"scan":{scan}}}"#).as_bytes()]);
    }

    /// Sends images, each when `may` allows it. Returns the number of the first unsent image.
    pub(crate) fn images(&self, scan: u64, frames: Range<u64>, may: impl Fn(u64) -> May) -> u64 {
        let end = frames.end;
        for frame in frames {
            let turn = wait_for("leave to send", || Some(may(frame)).filter(|may| *may != May::Wait));
            let head = format!(
                r#"{{"htype":"image","frame":{frame},"shape":[{PIXELS}],"type":"uint8","compression":"none","msg_number":1,"scan":{scan}}}"#
            );
            // A failed send means that the connection was replaced.
            if turn == May::Stop || !self.send(&[head.as_bytes(), &pixels(scan, frame)]) {
                return frame;
            }
        }
        end
    }

    /// Sends a message. Returns false without a working connection.
    fn send(&self, parts: &[&[u8]]) -> bool {
        lock(&self.newest).as_mut().is_some_and(|peer| peer.send(parts).is_ok())
    }
}

impl Drop for Detector {
    fn drop(&mut self) {
        self.closed.store(true, SeqCst);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        if let Some(taking) = self.taking.take() {
            let _ = taking.join();
        }
    }
}

fn lock(newest: &Mutex<Option<ZmtpPeer>>) -> MutexGuard<'_, Option<ZmtpPeer>> {
    newest.lock().unwrap_or_else(PoisonError::into_inner)
}
